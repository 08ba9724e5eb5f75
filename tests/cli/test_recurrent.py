"""Recurrent models on the command line: shown, trained, run, and refused with the reason."""

from pathlib import Path

import pytest

from tests.cli.test_train import clearhead
from tests.cli.typed import typed
from tests.training.toy import write_pairs

SMALL = ["model.family=recurrent", "model.width=24", "training.threads=1", "decoding.min_length=1"]


@pytest.mark.parametrize("attention", ["bahdanau", "luong"])
def test_train_and_run(tmp_path: Path, attention: str) -> None:
    """Pairs to model to answers, one for every line, by beam search; the file says what it is."""
    pairs, run = write_pairs(tmp_path / "pairs.tsv", 200), str(tmp_path / "run")
    kind = f"model.attention.kind={attention}"
    trained = clearhead("train", str(pairs), "-o", run, "--max-steps", "20", kind, *SMALL)
    assert trained.returncode == 0, trained.stderr
    lines = tmp_path / "lines.txt"
    lines.write_text("abc\n\ngfedc\n")
    answers = clearhead("run", run, str(lines), "--beam-size", "3")
    assert answers.returncode == 0, answers.stderr
    assert [bool(answer) for answer in answers.stdout.splitlines()] == [True, False, True]
    shown = typed("show", f"{run}/best.safetensors").stdout
    assert f"{attention.capitalize()}Alignment" in shown
    assert "recurrent" in shown


def test_show_needs_no_preset() -> None:
    """Changes alone change the defaults; layers that are not alike are shown one by one."""
    shown = typed("show", "model.family=recurrent", "model.width=16", "model.layers=3")
    assert shown.returncode == 0, shown.stderr
    assert "layer 1:" in shown.stdout
    assert "layers 2–3, each:" in shown.stdout
    mixed = typed("show", "model.decoder.kind=recurrent", "model.width=16")
    assert mixed.returncode == 0, mixed.stderr
    assert "MultiHeadAttention" in mixed.stdout
    assert "LuongAlignment" in mixed.stdout


def test_what_no_part_takes_is_refused() -> None:
    refused = typed("show", "model.family=recurrent", "model.heads=4")
    assert refused.returncode == 2
    assert "model.heads: no part of this model takes it (encoder: recurrent, decoder: recurrent)" in refused.stderr
