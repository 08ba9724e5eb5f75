"""Tuning beside training from scratch, on real data: the same examples, steps and seed, one table.

    python -m benchmarks.tuning [--base RUN] [--only notation|stress] [--json FILE]

notation: an encoder-decoder that has learnt English spelling → phones (g2p-en) is tuned to 1,000 words of another
notation, phones with stress marks (``K AE1 B AH0 JH``), of which its vocabulary knows the consonants alone. Rows: from
scratch, from scratch for three times as many steps, all weights tuned, the encoder's layers frozen, LoRA beside every
linear map. ``--base`` names the trained model; without it one is trained for 600 steps. Test words are from the test part of
g2p-en, which the base has never seen.

stress: an encoder learns to fill in hidden letters of 50,000 English words, and is tuned to say which syllable of a
word carries the primary stress (first, second, later), a question that any speech synthesizer has to answer for a word that is in no
dictionary, from 1,000 words whose answer the dictionary has. None of the test words is among the 50,000.

Steps are the clock, so that a busy machine changes nothing but the time. Scores are on test words, with intervals of 95 %.
"""

import argparse
import json
import random
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import clearhead
from clearhead.data import PAIRS, read_corpus
from clearhead.recipe import read_recipe
from clearhead.training import tuned

SEED = 1
WORDS, DEV, TEST = 1000, 100, 500
COMMON = [f"training.seed={SEED}", "training.threads=1", "decoding.beam_size=1"]
Pairs = list[tuple[str, str]]
LETTERS = re.compile("[a-z]+")

SEQ2SEQ = ["model.layers=3", "model.width=192", "model.heads=4"]
NOTATION = ["training.batch_tokens=256", "training.average=0.98"]
NOTATION_STEPS = 120
LORA = ["training.adapters=lora", "training.adapters.rank=16", "training.adapters.alpha=32"]
EVERYWHERE = 'training.adapters.targets=["attention", "cross", "feedforward"]'

ENCODER = ["model.layers=2", "model.width=96", "model.heads=4", "data.source.kind=characters"]
LABELS = ["training.batch_tokens=512", "training.average=0.98"]
PRETRAINING_STEPS, LABEL_STEPS = 1000, 150


def notation(base: Path | None, folder: Path) -> list[dict[str, Any]]:
    """Spelling → phones with stress marks, from 1,000 words."""
    if base is None:
        base = folder / "base"
        clearhead.train("g2p-en", base, steps=600, settings=[*COMMON, *SEQ2SEQ, "training.average=0.98"])
    corpus = read_corpus(read_recipe(None, "data.task=g2p-en", "data.stress=true").data, PAIRS)
    train = [(pair.source, pair.target) for pair in corpus.train()]
    rng = random.Random(SEED)
    data = {
        "data": rng.sample(train, WORDS),
        "dev": _some(rng, [(pair.source, pair.target) for pair in corpus.dev], DEV),
        "test": _some(rng, [(pair.source, pair.target) for pair in corpus.test], TEST),
    }
    spec = clearhead.Run(base).recipe.model
    sizes = [f"model.layers={spec.encoder.layers}", f"model.width={spec.encoder.width}", *SEQ2SEQ[2:]]  # type: ignore[attr-defined]
    tuned: dict[str, tuple[list[str], int]] = {
        "all weights": (["training.optimizer.rate=5e-4"], 1),
        "encoder's layers frozen": (
            ["training.optimizer.rate=5e-4", f"training.freeze=encoder.1-{spec.encoder.layers}"],
            1,
        ),  # type: ignore[attr-defined]
        "LoRA, rank 16": ([*LORA, EVERYWHERE, "training.optimizer.rate=2e-3"], 1),
    }
    rows = []
    for name, times in (("from scratch", 1), ("from scratch, 3 × the steps", 3)):
        settings = [*sizes, *NOTATION]
        rows.append(_row(name, None, data, folder / f"scratch-{times}", times * NOTATION_STEPS, settings))
    for name, (settings, times) in tuned.items():
        rows.append(
            _row(name, base, data, folder / name.replace(" ", "-"), times * NOTATION_STEPS, [*NOTATION, *settings])
        )
    return rows


def stress(folder: Path) -> list[dict[str, Any]]:
    """Which syllable carries the primary stress, from 1,000 labelled words after 50,000 unlabelled ones."""
    corpus = read_corpus(read_recipe(None, "data.task=g2p-en", "data.stress=true").data, PAIRS)
    rng = random.Random(SEED)
    labelled = {
        part: _stressed([(pair.source, pair.target) for pair in pairs]) for part, pairs in _parts(corpus).items()
    }
    data = {
        "data": rng.sample(labelled["train"], WORDS),
        "dev": _some(rng, labelled["dev"], 3 * DEV),
        "test": _some(rng, labelled["test"], 2 * TEST),
    }
    lines = sorted({pair.source for pair in corpus.train() if LETTERS.fullmatch(pair.source)})
    base = clearhead.train(
        rng.sample(lines, 50_000),
        folder / "masked",
        steps=PRETRAINING_STEPS,
        settings=[
            *COMMON,
            *ENCODER,
            "model.family=encoder",
            "training.batch_tokens=1024",
        ],
    )
    family = "model.family=classifier"
    last = f"training.freeze=embedding,encoder.1-{1}"
    return [
        _row("from scratch", None, data, folder / "a", LABEL_STEPS, [*ENCODER, *LABELS, family]),
        _row("from scratch, 3 × the steps", None, data, folder / "b", 3 * LABEL_STEPS, [*ENCODER, *LABELS, family]),
        _row("all weights", base.folder, data, folder / "c", LABEL_STEPS, [*LABELS, family]),
        _row("embedding and first layer frozen", base.folder, data, folder / "d", LABEL_STEPS, [*LABELS, family, last]),
        _row(
            "LoRA, rank 16, and a new head",
            base.folder,
            data,
            folder / "e",
            LABEL_STEPS,
            [
                *LABELS,
                family,
                *LORA,
                'training.adapters.targets=["attention", "feedforward"]',
                "training.optimizer.rate=3e-3",
            ],
        ),
    ]


def _row(
    name: str, start: Path | None, data: dict[str, Pairs], output: Path, steps: int, settings: Sequence[str]
) -> dict[str, Any]:
    """Train once, and score the best step on the test words."""
    run = clearhead.train(
        data["data"],
        output,
        dev=data["dev"],
        test=data["test"],
        start=start,
        steps=steps,
        settings=[*COMMON, *settings],
    )
    scores = run.scores["test"]
    metrics = [metric for metric in ("symbol_error", "line_error", "accuracy") if metric in scores]
    weights = tuned(clearhead.build(run.recipe, seed=0), run.recipe.training).parameters()
    trained = sum(parameter.numel() for parameter in weights if parameter.requires_grad)
    row = {"row": name, "steps": steps, "trained parameters": trained}
    for metric in metrics:
        row[metric] = [scores[metric].value, scores[metric].low, scores[metric].high]
    print(_shown(row), flush=True)
    return row


def _shown(row: dict[str, Any]) -> str:
    scores = "   ".join(
        f"{name} {value:5.1f} ({low:.1f}–{high:.1f})" for name, (value, low, high) in list(row.items())[3:]
    )
    return f"{row['row']:<34}{row['steps']:>5} steps {row['trained parameters']:>10,} trained   {scores}"


def _some(rng: random.Random, items: Pairs, count: int) -> Pairs:
    return rng.sample(items, min(count, len(items)))


def _parts(corpus: Any) -> dict[str, Any]:
    return {"train": corpus.train(), "dev": corpus.dev, "test": corpus.test}


def _stressed(pairs: Pairs) -> Pairs:
    """(place of the primary stress, word) of words of two syllables or more that have one pronunciation."""
    several = {word for place, (word, _) in enumerate(pairs) if place and pairs[place - 1][0] == word}
    found = []
    for word, phones in pairs:
        marks = re.findall(r"\d", phones)
        if word not in several and len(marks) > 1 and "1" in marks and LETTERS.fullmatch(word):
            found.append((("first", "second", "later")[min(2, marks.index("1"))], word))
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", type=Path, help="A run of g2p-en to tune.")
    parser.add_argument("--only", choices=["notation", "stress"])
    parser.add_argument("--json", type=Path, help="Write the table here, too.")
    given = parser.parse_args()
    tables: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as place:
        if given.only != "stress":
            print("spelling → phones with stress marks, 1,000 words")
            tables["notation"] = notation(given.base, Path(place))
        if given.only != "notation":
            print("which syllable is stressed, 1,000 words")
            tables["stress"] = stress(Path(place))
    if given.json:
        given.json.write_text(json.dumps(tables, indent=1) + "\n", encoding="utf-8")
