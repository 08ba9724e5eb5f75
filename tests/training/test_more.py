"""A run with ``data.more`` learns what it would learn if those pairs stood at the end of its training file."""

import json
from pathlib import Path

import torch

import clearhead
from clearhead.models import load_model
from tests.cli.typed import typed
from tests.training.toy import FEW, SMALL, write_pairs

STEPS = ["--max-steps", "8", "training.evaluate_every=4", "training.save_every=2"]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return dict(load_model(folder / "best.safetensors").model.named_parameters())


def test_more_pairs_are_learnt_like_the_others(tmp_path: Path) -> None:
    """The same weights, to the last bit; without them the weights are others."""
    train, more = (write_pairs(tmp_path / f"{name}.tsv", count=FEW, seed=seed) for seed, name in enumerate("ab"))
    dev = write_pairs(tmp_path / "dev.tsv", count=40, seed=3)
    asked = {line.split("\t")[0] for line in dev.read_text().splitlines()}
    new = [line for line in more.read_text().splitlines() if line.split("\t")[0] not in asked]
    (tmp_path / "both.tsv").write_text(train.read_text() + "".join(f"{line}\n" for line in new))
    for name, data in (
        ("more", [str(train), "--more", str(more)]),
        ("both", [str(tmp_path / "both.tsv")]),
        ("without", [str(train)]),
    ):
        done = typed("train", *data, "--dev", str(dev), "-o", str(tmp_path / name), *STEPS, *SMALL)
        assert done.returncode == 0, done.stderr
    found, same, other = (weights(tmp_path / name) for name in ("more", "both", "without"))
    assert all(torch.equal(weight, same[name]) for name, weight in found.items())
    assert not all(torch.equal(weight, other[name]) for name, weight in found.items())


def test_the_answers_of_a_model_teach_another(tmp_path: Path) -> None:
    """What ``run --json`` writes is taken as it is, but for what was not answered; examples in memory are kept in the
    run folder, and resume needs none of them."""
    train = write_pairs(tmp_path / "train.tsv", count=FEW)
    (tmp_path / "words.txt").write_text("abc\ncba\nbbb\n")
    settings = [*SMALL, "training.evaluate_every=2"]
    first = clearhead.train(train, tmp_path / "first", steps=2, settings=settings)
    words, answers = str(tmp_path / "words.txt"), str(tmp_path / "a.jsonl")
    assert typed("run", str(first.folder), words, "--json", "-o", answers).returncode == 0
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    answered = [row for row in rows if row["target"]]
    assert answered
    from_file = [str(train), "--more", answers, "--from", str(first.folder), "-o", str(tmp_path / "pupil")]
    done = typed("train", *from_file, "--max-steps", "2", *settings[-1:], "data.bad_lines=skip")
    assert done.returncode == 0, done.stderr
    assert f"{len(answered)} training pairs are from {answers}" in done.stderr
    pairs = [(row["source"], row["target"]) for row in answered]
    taught = clearhead.train(train, tmp_path / "taught", more=pairs, start=first, steps=2, settings=settings[-1:])
    assert (taught.folder / "data" / "given-more.jsonl").is_file()
    again = clearhead.train(None, taught.folder, steps=4, resume=True)
    assert again.steps == 4
