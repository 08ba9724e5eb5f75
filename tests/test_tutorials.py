"""The tutorials are run as they stand: every command and every snippet, with a small budget in place of minutes."""

import itertools
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.costing import cost
from clearhead.costing.tracing import counted_macs, saved_bytes, watch
from clearhead.models import build
from clearhead.recipe import read_recipe, registry
from tests.cli.forked import forked
from tests.cli.typed import typed

ROOT = Path(__file__).parent.parent
TUTORIALS = ROOT / "docs" / "tutorials"
SMALL = (
    "--max-steps 6 decoding.max_length=12 model.layers=1 model.width=32 model.feedforward.width=32 training.threads=1"
)
BUDGET = {"--minutes 5": SMALL}
NOT_HERE = ("make setup", ". .venv/bin/activate")
"""What has been done before any test can run; the Makefile's target is looked at instead."""


def blocks(page: str) -> list[tuple[str, str]]:
    """Language and content of every fenced block, in order."""
    return re.findall(r"^```(\w*)\n(.*?)^```", (TUTORIALS / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def run(command: str, folder: Path) -> str:
    """Run a command as a shell does, with this Python and a small budget."""
    for words, small in BUDGET.items():
        command = command.replace(words, small)
    command = re.sub(r"(^|\| )clearhead ", rf"\1{sys.executable} -m clearhead ", command)
    command = re.sub(r"^python ", f"{sys.executable} ", command)
    result = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def commands(block: str) -> list[str]:
    return [line.split("  #")[0].strip() for line in block.splitlines() if line.strip()]


def test_the_first_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the task to the trained model and its scores; the Python of the page reads what the commands wrote."""
    monkeypatch.chdir(tmp_path)
    said: dict[str, str] = {}
    scripts = 0
    for language, block in blocks("first-model.md"):
        if language == "python":
            scripts += 1
            if scripts == 1:
                (tmp_path / "make_dates.py").write_text(block.replace("20_000", "300"), encoding="utf-8")
            else:
                exec(compile(block, "first-model.md", "exec"), {})
            continue
        for command in commands(block):
            if command not in NOT_HERE:
                said[command] = run_here(command, tmp_path)
    assert (tmp_path / "runs" / "dates" / "best.safetensors").is_file()
    assert any("line_error" in text for text in said.values())
    assert len(said) >= 9
    dry = subprocess.run(["make", "-n", "setup"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "venv" in dry.stdout or "up to date" in dry.stdout or "Nothing to be done" in dry.stdout


SPELLING = {"F": "ph", "OW": "o", "N": "n", "AH": "u", "G": "g", "R": "r", "AE": "a", "P": "p", "T": "t", "CH": "ch"}
"""The sounds of a small task, and how each of them is spelt."""
SMALLER = (
    "--max-steps 6 model.layers=3 model.heads=4 model.width=16 model.feedforward.width=16 training.threads=1 "
    "decoding.max_ratio=0.5 decoding.max_extra=2"  # what has learnt nothing does not stop either
)


def test_what_has_my_model_learnt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands in this process, on a small task with the sounds of the real one and as many layers and heads."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(BUDGET, "train g2p-en", "train small.tsv")
    monkeypatch.setitem(BUDGET, "--max-steps 600", SMALLER)
    several = itertools.product(SPELLING, repeat=3)
    lines = [f"{''.join(SPELLING[sound] for sound in sounds)}\t{' '.join(sounds)}\n" for sounds in several]
    (tmp_path / "small.tsv").write_text("".join(lines[::5]), encoding="utf-8")
    names: dict[str, Any] = {}
    said: dict[str, str] = {}
    for language, block in blocks("look.md"):
        if language == "python":
            exec(compile(block, "look.md", "exec"), names)
        elif language == "":
            said |= {command: run_here(command, tmp_path) for command in commands(block)}
    look = 'clearhead look runs/demo "phonograph"'
    assert "alignment: what each token reads (norms)" in said[look]
    assert "logit over P" in said[f"{look} --at 1 --against P"]
    assert "without decoder.2.1" in said[f"{look} --without decoder.2.1"]
    assert "with all heads: " in said[f"{look} --without decoder.2.1"]
    assert any("chosen: cross.3.3, shift 0" in text for text in said.values())
    assert "36 heads on " in said["clearhead look runs/demo dev.tsv --heads"]
    assert any(re.search(r"heads +36 +28", text) and "removed: " in text for text in said.values())
    for page in ("look.html", "heads.html"):
        assert (tmp_path / page).read_text(encoding="utf-8").startswith("<!doctype html>")
    assert len(names["view"].attention.head("decoder.2.1")) == len(names["read"])


def run_here(command: str, folder: Path) -> str:
    """What a command prints; clearhead's run in this process or forked from it, without starting torch anew."""
    result: subprocess.CompletedProcess[str]
    source, pipe, reader = command.partition(" | clearhead ")
    if pipe and not set(source + reader) & set("|<>"):
        given = subprocess.run(["bash", "-c", source], cwd=folder, capture_output=True, text=True, check=True).stdout
        result = forked(*shlex.split(reader), given=given, env=os.environ, cwd=folder, text=True)
    elif not command.startswith("clearhead ") or set(command) & set("|<>"):
        return run(command, folder)
    else:
        for words, small in BUDGET.items():
            command = command.replace(words, small)
        result = typed(*shlex.split(command)[1:])
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout + result.stderr


def test_know_the_cost(tmp_path: Path) -> None:
    """Every command answers, and the Python block by block in one namespace."""
    names: dict[str, Any] = {}
    said = []
    for language, block in blocks("cost.md"):
        if language == "python":
            exec(compile(block, "cost.md", "exec"), names)
        else:
            said += [run_here(command, tmp_path) for command in commands(block)]
    assert len(said) == 6
    assert all(said)
    assert names["wide"].parameters.at() > names["tiny"].parameters.at()


def test_your_own_attention() -> None:
    """One namespace, block after block; its checks are assertions of their own."""
    names: dict[str, Any] = {"__name__": "tutorial"}
    try:
        for language, block in blocks("own-attention.md"):
            if language == "python":
                exec(compile(block, "own-attention.md", "exec"), names)
        assert names["AverageAttention"].__doc__
        assert str(names["average"]["encoder"]["layers"]["attention"].macs) == "B·(n²·d + 3·n·d²)"
        assert str(names["multihead"]["encoder"]["layers"]["attention"].macs) == "B·(2·n²·d + 4·n·d²)"
        for gated in ("true", "false"):
            _prove_its_cost(gated)
        with pytest.raises(ValueError, match="registered already"):
            names["clearhead"].register(type("Average", (names["Average"],), {"__doc__": "Another."}), module=object)
    finally:
        registry._kinds["attention"].pop("average", None)


def _prove_its_cost(gated: str) -> None:
    """The tutorial's formula, in all parts of a model: work, span, what autograd keeps, what the cache holds."""
    sizes = ["model.layers=2", "model.width=16", "model.heads=2", "model.vocabulary.pad=none"]
    dry = [f"model.dropout.{part}=0.0" for part in ("residual", "embedding")]
    recipe = read_recipe("tiny", *sizes, *dry, "model.attention.kind=average", f"model.attention.gated={gated}")
    model: Any = build(recipe, seed=1)
    formula, place = cost(recipe), {"n": 7, "m": 5, "B": 2}
    source, target = torch.randint(4, 40, (2, 7)), torch.randint(4, 40, (2, 5))
    seen = watch(lambda: model(source, target), model, [])
    assert (formula.macs.at(**place), formula.operations.at(**place)) == (seen.macs, seen.operations)
    assert (formula.span.at(**place), formula.serial_span.at(**place)) == (seen.span, seen.serial_span)
    assert formula.saved.at(**place) == saved_bytes(lambda: model(source, target), model)
    with torch.no_grad():
        state = model.eval().start(source)
        for step in range(1, 4):
            macs = counted_macs(lambda: model.step(target[:, :1], state))
            of_zeros = 2 * 2 * (step + 7)  # the scores, which depend on positions alone, and which torch multiplies
            once = formula.read["decoder"].macs.at(n=7, B=2) if step == 1 else 0  # the memory's values
            assert formula.step.macs.at(t=step, n=7, B=2) + once == macs - of_zeros
    assert formula.step.cache.at(t=3, n=7, B=2) == state.cache.nbytes
    spans = [formula.step.span.at(t=step, n=7, B=2) for step in range(1, 6)]
    assert formula.decode_span.at(**place) == formula.read.span.at(**place) + sum(spans)


@pytest.mark.parametrize("page", sorted(path.name for path in TUTORIALS.glob("*.md")))
def test_links_lead_somewhere(page: str) -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", (TUTORIALS / page).read_text(encoding="utf-8")):
        assert (TUTORIALS / link).exists(), link
