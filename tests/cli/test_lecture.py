"""`clearhead lecture` as a student meets it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import clearhead
from clearhead.lectures import claims
from clearhead.lectures.demonstrations.broken import broken
from tests.cli.typed import typed


def test_the_list_names_every_claim_without_torch() -> None:
    code = (
        "import runpy, sys\n"
        "sys.argv = ['clearhead', 'lecture']\n"
        "try: runpy.run_module('clearhead', run_name='__main__')\n"
        "except SystemExit: pass\n"
        "print(sorted({'torch', 'sympy'} & set(sys.modules)))\n"
    )
    lines = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[-1] == "[]"
    for claim in claims():
        assert any(line.split()[:1] == [claim.id] and claim.title in line for line in lines)
    assert any("disputed: the ReLU belongs between the two maps" in line for line in lines)
    listed = json.loads(typed("lecture", "--json").stdout)["claims"]
    assert [entry["id"] for entry in listed] == [claim.id for claim in claims()]


def test_one_claim_states_runs_and_shows() -> None:
    result = typed("lecture", "L4.8")
    assert result.returncode == 0, result.stderr
    for words in (
        "holds under a condition",
        "Var[q·k] = Var[Σ_{i=1}^{d_k} q_i k_i] = d_k",
        "256 ± 25.6",
        "✓ agrees",
        "✓ rejected",
        "└───",
        "module clearhead.attention.score",
        "test_L4_8_the_variance_of_a_score_is_its_size",
        "✓ reproduced",
    ):
        assert words in result.stdout, words


def test_json_is_what_scripts_rely_on() -> None:
    result = typed("lecture", "L2.9", "L4.8", "--json")
    table = json.loads(result.stdout)
    assert list(table) == ["claims"]
    for entry, name in zip(table["claims"], ("L2.9", "L4.8"), strict=True):
        assert list(entry)[:6] == ["id", "verdict", "predicted", "observed", "wrong_variant_rejected", "reproduced"]
        assert entry["wrong"]
        assert all(wrong["rejected"] for wrong in entry["wrong"])
        assert (entry["id"], entry["wrong_variant_rejected"], entry["reproduced"]) == (name, True, True)
        assert entry["predicted"].keys() == entry["observed"].keys()
    assert table["claims"][0]["verdict"] == "misprint"


def test_claims_are_found_by_word() -> None:
    """Several are listed, without running them; one is run; nothing found says what is near."""
    found = json.loads(typed("lecture", "softmax", "--json").stdout)["claims"]
    assert {"L0.3", "L1.5"} <= {entry["id"] for entry in found} < {claim.id for claim in claims()}
    both = json.loads(typed("lecture", "L1", "Softmax", "mask", "--json").stdout)["claims"]
    assert [entry["id"] for entry in both] == ["L1.9"]
    assert both[0]["reproduced"]
    lines = typed("lecture", "softmax").stdout.splitlines()
    assert any(line.split()[:1] == ["L0.3"] for line in lines)
    assert not any("reproduced" in line for line in lines)


def test_a_page_and_figures(tmp_path: Path) -> None:
    result = typed(
        "lecture", "L2.9", "L0.2", "--html", str(tmp_path / "page.html"), "--figures", str(tmp_path / "figures")
    )
    assert result.returncode == 0, result.stderr
    assert "2 of 2 claims reproduced" in result.stdout
    assert '<article id="L0.2">' in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert [file.name for file in (tmp_path / "figures").iterdir()] == ["L2.9-1.svg"]


def test_a_claim_that_is_not_reproduced_is_a_failure() -> None:
    """The mutation: a product whose scores are twice too large fails L4.8 with exit code 1, and says why."""

    def twice(right: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        return lambda scores, mask=None, choice="soft": right(2 * scores, mask, choice)

    with broken("clearhead.attention.choice.choose", twice):
        told, table = typed("lecture", "L4.7", "L4.8"), typed("lecture", "L4.7", "L4.8", "--json")
    assert told.returncode == table.returncode == 1
    assert [entry["reproduced"] for entry in json.loads(table.stdout)["claims"]] == [True, False]
    assert "✗ does not agree" in told.stdout
    assert "1 of 2 claims reproduced" in told.stdout
    assert "not reproduced: L4.8" in told.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["L48"], 2, "L48: no such claim; did you mean L4.8?"),
        (["L4.8", "L7.1"], 2, "L7.1: no such claim"),
        (["sofmax"], 2, "sofmax: no claim has this word; did you mean softmax?"),
        (["linformer", "telephone"], 2, "linformer: found in L2.14, but no claim has all of these words"),
        (["--all", "L4.8"], 2, "--all runs every claim"),
        (["L4.8", "--html", "nowhere/page.html"], 1, "the folder nowhere does not exist"),
    ],
)
def test_what_is_typed_wrong_is_told(arguments: list[str], code: int, message: str) -> None:
    result = typed("lecture", *arguments)
    assert result.returncode == code
    assert message in result.stderr.replace("\n", " ")
    assert "Traceback" not in result.stderr


def test_exercises_are_listed_shown_and_checked(tmp_path: Path) -> None:
    listed = typed("lecture", "--exercises")
    assert "25 exercises" in listed.stdout
    assert len(json.loads(typed("lecture", "--exercises", "--json").stdout)["exercises"]) == 25
    shown = typed("lecture", "--exercise", "2.3")
    assert "a file that defines answer(q, k)" in shown.stdout
    for answer, code, words in (
        ("4*n*d**2 + 2*n**2*d", 0, "4.2 ✓ right: read on with clearhead lecture L4.3"),
        ("2*n*n*d", 1, "4.2 ✗ wrong: the projections are missing: 4nd²"),
        ("4nd", 2, "write products with *"),
    ):
        told = typed("lecture", "--exercise", "4.2", answer)
        assert (told.returncode, words in told.stdout + told.stderr) == (code, True), told
    file = tmp_path / "answer.py"
    file.write_text("def answer(q, k):\n    return q @ k / len(q)\n")
    told = typed("lecture", "--exercise", "2.3", str(file), "--json")
    assert told.returncode == 1
    judged = json.loads(told.stdout)
    assert (judged["id"], judged["right"]) == ("2.3", False)
    assert judged["says"].startswith("you divided by d, not √d")


def test_break_it_yourself() -> None:
    assert "mask-off-by-one" in typed("lecture", "--break", "list").stdout
    assert json.loads(typed("lecture", "--break", "list", "--json").stdout)["breaks"][0]["name"] == "scale-by-d"
    told = typed("lecture", "--break", "scale-by-d", "L1.1", "L0.4")
    assert told.returncode == 0
    assert "L1.1   notices: Attention takes" in told.stdout
    assert "noticed by 1 of 2 claims: L1.1" in told.stdout
    unseen = typed("lecture", "--break", "scale-by-d", "L0.4", "--json")
    assert unseen.returncode == 1
    assert json.loads(unseen.stdout)["noticed"] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--exercise", "9.1"], "9.1: no such exercise"),
        (["--exercise", "4.2", "n", "d"], "one answer at a time"),
        (["--exercise", "4.2", "--all"], "stand alone"),
        (["--exercise", "0.2", "nowhere.py"], "nowhere.py: no such file"),
        (["--break", "nothing"], "nothing: no such break"),
        (["--serve", "--port", "70000"], "65535"),
    ],
)
def test_what_is_typed_wrong_about_exercises_and_breaks(arguments: list[str], message: str) -> None:
    told = typed("lecture", *arguments)
    assert told.returncode == 2
    assert message in told.stderr.replace("\n", " ")


def test_the_page_is_served_at_the_port_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def serve(outcomes: list[clearhead.Outcome], *, port: int, ready: Callable[[str], None]) -> None:
        ready(f"http://127.0.0.1:{port}/ with {[outcome.claim.id for outcome in outcomes]}")

    monkeypatch.setattr(clearhead, "serve_lecture_page", serve, raising=False)
    told = typed("lecture", "L1.1", "--serve", "--port", "8123")
    assert (told.returncode, told.stderr) == (0, "http://127.0.0.1:8123/ with ['L1.1'] (Ctrl-C ends)\n")
