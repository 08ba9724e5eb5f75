"""`clearhead cost` as a user meets it: quick, without torch, in every format, and with words for every mistake."""

import gc
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jaxtyping
import pytest

from clearhead.costing import cost
from tests.cli.forked import forked
from tests.cli.terminal import PLAIN, at_terminal
from tests.cli.test_terminal import plain
from tests.cli.typed import typed
from tests.costing.test_report import cut_words
from tests.thorough import proved_later


@pytest.fixture(autouse=True)
def collect_garbage() -> Iterator[None]:
    """The command turns it off, for a process that ends at once; this one does not."""
    yield
    gc.enable()


def answer(*arguments: str) -> Any:
    result = typed("cost", *arguments, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    "arguments",
    proved_later([["transformer-base"], ["bert-base", "model.layers=11", "--json"]], but=[["transformer-base"]]),
)
def test_it_answers_without_torch_and_at_once(arguments: list[str]) -> None:
    """A few times the Python calls that importing sympy and the command line takes: no clock, so no noise."""
    answer = (
        "import runpy\n"
        f"sys.argv = ['clearhead', 'cost', *{arguments}]\n"
        "try: runpy.run_module('clearhead', run_name='__main__')\n"
        "except SystemExit: pass\n"
    )

    torch, calls = counted(answer)
    assert torch == "False"
    assert calls < 7 * counted("import sympy, clearhead.cli.app\n")[1]


@cache
def counted(code: str) -> tuple[str, int]:
    """Whether code, in a Python of its own, imports torch, and how many Python calls it makes."""
    counter = (
        "import sys\n"
        "calls = 0\n"
        "def count(_frame, event, _argument):\n"
        "    global calls\n"
        "    calls += event == 'call'\n"
        "sys.setprofile(count)\n"
    )
    code = f"{counter}{code}sys.setprofile(None)\nprint('torch' in sys.modules, calls)\n"
    environment = {name: value for name, value in os.environ.items() if name != "SYMPY_CACHE_SIZE"}  # as users have it
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    torch, calls = result.stdout.strip().splitlines()[-1].split()
    return torch, int(calls)


def test_json_has_integers_with_formulas_beside_them() -> None:
    found = answer("bert-base", "model.layers=11")
    assert found["parameters"] == 102_394_368
    assert isinstance(found["macs"], int)
    assert found["flops"] == 2 * found["macs"]
    assert found["formulas"]["macs"] == "B·(2·L·n²·d + 2·L·n·d·d_ff + 4·L·n·d²)"
    assert found["sizes"]["L"] == 11
    assert sum(share["parameters"] for share in found["shares"]) == found["parameters"]
    assert sum(share["macs"] for share in found["shares"]) == found["macs"]
    assert set(found["conventions"]) == set(found["formulas"])
    (encoder,) = (block for block in found["blocks"] if block["name"] == "encoder")
    assert encoder["parts"][1]["parts"][0]["name"] == "attention"


def test_numbers_are_those_of_the_library() -> None:
    found = answer("transformer-base", "--n", "100", "--m", "80", "--batch", "8", "--t", "7")
    base, place = cost("transformer-base"), {"n": 100, "m": 80, "B": 8, "t": 7}
    assert found["at"] == place
    for key, formula in (
        ("macs", base.macs),
        ("causal_macs", base.causal_macs),
        ("training_macs", base.training),
        ("operations", base.operations),
        ("step_macs", base.step.macs),
        ("decode_macs", base.decode_macs),
        ("saved_bytes", base.saved),
        ("saved_bytes_fused", base.fused.saved),
        ("cache_bytes", base.step.cache),
        ("span", base.span),
        ("serial_span", base.serial_span),
        ("decode_span", base.decode_span),
        ("optimizer_bytes", base.optimizer),
    ):
        assert found[key] == formula.at(**place), key
    assert found["decode_macs"] == found["causal_macs"]  # a cache saves exactly what the mask hides


def test_the_answer_is_one_screen() -> None:
    """At a terminal of 80 × 24 and through a pipe, letter by letter the same."""
    shown = plain(at_terminal(["cost", "transformer-base"]).terminal)
    assert shown == forked("cost", "transformer-base", env=PLAIN, text=True).stdout
    lines = shown.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert lines[-1] == "--all: every number, formula and block"
    assert shown.startswith(cost("transformer-base").summary().text())
    for said in ("63,082,496  L·(12·d² + 4·d·d_ff + 24·d + 2·d_ff) + d·V", "37,079,744,512  B·(L·(2·m²·d", "240.6 MiB"):
        assert said in shown


@pytest.mark.parametrize("columns", proved_later([40, 60, 80, 120], but=[40, 120]))
@pytest.mark.parametrize("more", [[], ["--all"]], ids=["screen", "all"])
def test_no_line_is_too_long_and_no_word_is_cut(more: list[str], columns: int) -> None:
    """At a real terminal and through a pipe: the same lines; tests/costing looks at the words of more models."""
    shown = plain(at_terminal(["cost", "transformer-base", *more], columns=columns).terminal)
    piped = forked("cost", "transformer-base", *more, env=PLAIN | {"COLUMNS": str(columns)}, text=True).stdout
    assert shown == piped
    assert max(map(len, shown.splitlines())) <= columns
    model = cost("transformer-base")
    report = model.table() if more else model.summary()
    hint = {"--all:", "every", "number,", "formula", "and", "block"}
    assert not cut_words(report, shown) - hint


def test_asking_for_detail_is_asking_for_everything() -> None:
    """--by, --view and --in mean --all; Markdown, LaTeX and JSON have everything at any rate."""
    everything = typed("cost", "tiny", "--all").stdout
    for words in (["--by", "block"], ["--view", "exact"]):
        assert typed("cost", "tiny", *words).stdout == everything
    assert len(everything.splitlines()) > 3 * len(typed("cost", "tiny").stdout.splitlines())
    for form in ("--markdown", "--latex"):
        assert typed("cost", "tiny", form).stdout == typed("cost", "tiny", form, "--all").stdout


def test_lengths_suit_the_model() -> None:
    """Nobody typed a length that its positions could not hold."""
    assert "at n = 100, B = 1" in typed("cost", "bert-base", "model.position.size=100").stdout
    assert typed("cost", "model.layers=2", "model.width=32").stdout.startswith(
        "model.layers=2 model.width=32 (seq2seq)"
    )


def test_tables_show_formula_number_share_and_convention() -> None:
    shown = cost("transformer-base").table(n=100, m=100).text(200)
    assert "63,082,496" in shown
    assert "12·L·d² + 4·L·d·d_ff" in shown
    assert "multiply-accumulates, dense" in shown
    assert re.search(r"attention +6,303,744 +4·L·d² \+ 4·L·d +690,585,600 +10\.7 %", shown), shown
    for by, word in (("model", "by "), ("layer", "by layer"), ("block", "feedforward")):
        assert (word in typed("cost", "tiny", "--by", by).stdout) == (by != "model")


def test_views() -> None:
    """As the lectures print it, and how it grows."""
    printed = answer("transformer-base", "--view", "printed")
    (encoder, *_) = printed["blocks"]
    (layers,) = (part for part in encoder["parts"] if part["name"] == "layers")
    attention, _, net, _ = layers["parts"]
    assert attention["formulas"]["macs"] == "2·n²·d + 4·n·d²"
    assert attention["formulas"]["parameters"] == "4·d²"
    assert (net["formulas"]["macs"], net["formulas"]["parameters"]) == ("8·n·d²", "8·d²")
    grown = answer("bert-base", "--view", "asymptotic", "--in", "n")
    assert grown["formulas"]["macs"] == "O(n²)"
    assert grown["formulas"]["span"] == "O(lg(n))"
    assert "as printed: one sequence" in typed("cost", "tiny", "--view", "printed").stdout


def test_markdown_and_latex() -> None:
    assert "| forward | B·(" in typed("cost", "tiny", "--markdown").stdout
    latex = typed("cost", "tiny", "--latex").stdout
    assert r"\begin{tabular}" in latex
    assert "d_{ff}" in latex


def test_crossover_is_solved_and_drawn(tmp_path: Path) -> None:
    one = answer("bert-base", "--crossover", "n")
    assert one["crossings"] == [
        {"at": 4609, "cheaper": "the rest of the layer", "formula": "2·d + d_ff", "values": [32629065216, 32621985792]}
    ]
    picture = tmp_path / "crossover.png"
    compared = ["bert-base", "bert-base", "model.attention.kind=linformer", "--crossover", "n"]
    result = typed("cost", *compared, "-o", str(picture))
    assert result.returncode == 0, result.stderr
    assert "n = 2·k = 128" in result.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert list(tmp_path.iterdir()) == [picture]
    assert answer(*compared, "--of", "memory")["crossings"]
    said = typed("cost", "tiny", "tiny", "model.layers=5", "--crossover", "n").stdout
    assert "they do not cross: tiny is never more expensive" in said


def test_without_matplotlib_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = typed("cost", "tiny", "--crossover", "n", "-o", str(tmp_path / "c.png"))
    message = 'drawing .png and .pdf needs the package matplotlib: pip install "clearhead[plot]"\n'
    assert (result.returncode, result.stderr) == (1, message)
    # clearhead draws SVG itself
    result = typed("cost", "tiny", "--crossover", "n", "-o", str(tmp_path / "c.svg"))
    assert result.returncode == 0, result.stderr
    picture = (tmp_path / "c.svg").read_text(encoding="utf-8")
    assert ElementTree.fromstring(picture).tag.endswith("svg")
    assert "n = 2·d" in picture


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trasformer-base"], "did you mean transformer-base?"),
        (["tiny", "model.layrs=3"], "did you mean layers?"),
        (["tiny", "small"], "a second recipe needs --crossover n"),
        (["tiny", "small", "gpt2"], "more than two recipes"),
        ([], "name a preset or a recipe file"),
        (["bert-base", "--n", "513"], "the encoder's table of learned positions holds 512"),
        (["gpt2", "--n", "2000"], "the decoder's table of learned positions holds 1024"),
        (["tiny", "--view", "asymptotic", "--in", "q"], "no such letter"),
        (["tiny", "--crossover", "d"], "must be n or m"),
        (["tiny", "--crossover", "n", "--of", "memory"], "name a second recipe"),
        (["tiny", "tiny", "--crossover", "n"], "is compared with itself"),
        (["tiny", "-o", "x.svg"], "is for --crossover"),
        (["tiny", "--crossover", "n", "-o", "x.txt"], "a picture is called something.svg"),
        (["tiny", "--crossover", "n", "-o", "nowhere/x.svg"], "the folder nowhere does not exist"),
        (["--table", "exams"], "there is one table: lectures"),
        (["tiny", "--table", "lectures"], "--table stands alone"),
        (["tiny", "--json", "--latex"], "choose one"),
    ],
)
def test_mistakes_are_told_in_words(arguments: list[str], message: str) -> None:
    result = typed("cost", *arguments)
    assert result.returncode in (1, 2)
    assert "Traceback" not in result.stderr
    assert message in " ".join(result.stderr.replace("│", " ").split())


def test_the_table_of_the_lectures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as in tests/costing, where torch traces
    tables = answer("--table", "lectures")
    assert [table["title"] for table in tables] == [
        "Modules (L4.3, L4.4, L4.5)",
        "Table 1 (L4.6)",
        "Parallel time (L3)",
    ]


def test_help_teaches() -> None:
    shown = typed("cost", "--help").stdout
    for word in ("--crossover", "--view", "multiply-accumulates", "clearhead cost bert-base model.layers=11 --json"):
        assert word in shown
