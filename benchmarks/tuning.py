"""Tuning beside training from scratch, on real data: the same examples, the same steps, the same seed.

    python -m benchmarks.tuning [--base RUN] [--masked RUN] [--only notation|syllables] [--words 1000] [--rows 1,3]

notation: an encoder-decoder that has learnt English spelling → phones (g2p-en) is tuned to 1,000 words of another
notation, phones with stress marks (``K AE1 B AH0 JH``), of which its vocabulary knows the consonants alone. ``--base``
names the trained model; without it one is trained for 500 steps. The test words are from the test part of g2p-en, on
which the base was not trained.

syllables: an encoder that has learnt to fill in hidden letters of 50,000 English words is tuned to say how many
syllables a word has (one, two, three, more), from 1,000 words whose answer the dictionary has: a question that formulas
of readability ask of every word, and that spelling answers only with exceptions. No test word is among the 50,000.
``--masked`` names the encoder; without it one is trained for 500 steps.

Steps are the clock, so that a busy machine changes nothing but the time. Scores are on test words, with intervals of
95 %. ``--rows`` picks rows of the table by number, so that they can be computed apart.
"""

import argparse
import json
import random
import re
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import clearhead
from clearhead.data import PAIRS, Pair, read_corpus
from clearhead.recipe import read_recipe

SEED = 1
DEV, TEST = 100, 500
COMMON = [f"training.seed={SEED}", "training.threads=1", "training.average=0.98", "decoding.beam_size=1"]
LETTERS = re.compile("[a-z]+")
Pairs = list[tuple[str, str]]

SEQ2SEQ = ["model.layers=2", "model.width=48", "model.heads=4"]
BASE_STEPS, NOTATION_STEPS = 500, 150
ENCODER = ["model.layers=2", "model.width=96", "model.heads=4", "data.source.kind=characters"]
PRETRAINING_STEPS, LABEL_STEPS = 500, 150
LORA = ["training.adapters=lora", "training.adapters.rank=16", "training.adapters.alpha=32"]


@dataclass(frozen=True)
class Row:
    """One way to train."""

    name: str
    start: Path | None
    steps: int
    settings: list[str]


def notation_rows(base: Path) -> Iterator[Row]:
    """From scratch, and three ways to tune; the rates are customary ones, none was searched for."""
    batch = "training.batch_tokens=256"
    for times in (1, 2):
        yield Row(
            f"from scratch{'' if times == 1 else ', 2 × the steps'}",
            None,
            times * NOTATION_STEPS,
            [*SEQ2SEQ, batch, "training.optimizer.rate=2e-3"],
        )
    slower = "training.optimizer.rate=1e-3"
    yield Row("all weights tuned", base, NOTATION_STEPS, [batch, slower])
    yield Row("encoder's layers frozen", base, NOTATION_STEPS, [batch, slower, "training.freeze=encoder.1-2"])
    targets = "training.adapters.targets=attention,cross,feedforward"
    rate = "training.optimizer.rate=3e-3"
    yield Row("LoRA of rank 16", base, NOTATION_STEPS, [batch, rate, targets, *LORA])


def syllable_rows(base: Path) -> Iterator[Row]:
    """From scratch, and three ways to tune."""
    common = ["model.family=classifier", "training.batch_tokens=512"]
    for times in (1, 2):
        name = f"from scratch{'' if times == 1 else ', 2 × the steps'}"
        yield Row(name, None, times * LABEL_STEPS, [*ENCODER, *common])
    yield Row("all weights tuned, new head", base, LABEL_STEPS, common)
    yield Row("first layer frozen, new head", base, LABEL_STEPS, [*common, "training.freeze=embedding,encoder.1"])
    adapters = ["training.adapters.targets=attention,feedforward", *LORA, "training.optimizer.rate=3e-3"]
    yield Row("LoRA of rank 16, new head", base, LABEL_STEPS, [*common, *adapters])
    yield Row("all weights tuned, 2 × the steps", base, 2 * LABEL_STEPS, common)
    yield Row("LoRA of rank 16, 2 × the steps", base, 2 * LABEL_STEPS, [*common, *adapters])


def notation(base: Path | None, folder: Path, rows: Collection[int], words: int) -> list[dict[str, Any]]:
    """Spelling → phones with stress marks, from 1,000 words."""
    if base is None:
        settings = [*COMMON, *SEQ2SEQ, "training.optimizer.rate=2e-3", f"training.evaluate_every={BASE_STEPS}"]
        base = clearhead.train("g2p-en", folder / "base", steps=BASE_STEPS, settings=settings).folder
    rng, parts = random.Random(SEED), _words()
    data = {
        "train": rng.sample(parts["train"], words),
        "dev": rng.sample(parts["dev"], DEV),
        "test": rng.sample(parts["test"], TEST),
    }
    return [_trained(row, data, folder / f"notation-{number}") for number, row in _chosen(notation_rows(base), rows)]


def syllables(base: Path | None, folder: Path, rows: Collection[int], words: int) -> list[dict[str, Any]]:
    """How many syllables a word has, from 1,000 labelled words after 50,000 unlabelled ones."""
    rng, parts = random.Random(SEED), _words()
    labelled = {part: _counted(pairs) for part, pairs in parts.items()}
    data = {
        "train": rng.sample(labelled["train"], words),
        "dev": rng.sample(labelled["dev"], 3 * DEV),
        "test": rng.sample(labelled["test"], 2 * TEST),
    }
    if base is None:
        lines = sorted({word for word, _ in parts["train"] if LETTERS.fullmatch(word)})
        settings = [*COMMON, *ENCODER, "model.family=encoder", "training.batch_tokens=1024"]
        sampled = rng.sample(lines, 50_000)
        base = clearhead.train(sampled, folder / "masked", steps=PRETRAINING_STEPS, settings=settings).folder
    return [_trained(row, data, folder / f"syllables-{number}") for number, row in _chosen(syllable_rows(base), rows)]


def _trained(row: Row, data: dict[str, Pairs], output: Path) -> dict[str, Any]:
    """Train once, and score the best step on the test words."""
    run = clearhead.train(
        data["train"],
        output,
        dev=data["dev"],
        test=data["test"],
        start=row.start,
        steps=row.steps,
        settings=[*COMMON, *row.settings],
    )
    scores = run.scores["test"]
    found: dict[str, Any] = {"row": row.name, "steps": row.steps, "trained": clearhead.cost(run.folder).trained.at()}
    for metric in ("symbol_error", "line_error", "accuracy"):
        if metric in scores:
            found[metric] = [scores[metric].value, scores[metric].low, scores[metric].high]
    shown = "  ".join(f"{name} {one:.1f} ({low:.1f}–{high:.1f})" for name, (one, low, high) in list(found.items())[3:])
    print(f"{row.name:<34}{row.steps:>5} steps {found['trained']:>10,} trained  {shown}", flush=True)
    return found


def _chosen(rows: Iterator[Row], numbers: Collection[int]) -> Iterator[tuple[int, Row]]:
    return ((number, row) for number, row in enumerate(rows, start=1) if not numbers or number in numbers)


def _words() -> dict[str, Pairs]:
    """Words and phones with stress marks: the parts of g2p-en, whose words are in one part each."""
    corpus = read_corpus(read_recipe(None, "data.task=g2p-en", "data.stress=true").data, PAIRS)
    parts: dict[str, list[Pair]] = {"train": list(corpus.train()), "dev": corpus.dev, "test": corpus.test}
    return {part: [(pair.source, pair.target) for pair in pairs] for part, pairs in parts.items()}


def _counted(pairs: Pairs) -> Pairs:
    """(number of syllables, word) of words that have one pronunciation."""
    several = {word for place, (word, _) in enumerate(pairs) if place and pairs[place - 1][0] == word}
    names = ("one", "two", "three", "more")
    vowels = [(word, len(re.findall(r"\d", phones))) for word, phones in pairs]  # each vowel has a mark of stress
    return [
        (names[min(count, 4) - 1], word)
        for word, count in vowels
        if count and word not in several and LETTERS.fullmatch(word)
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--base", type=Path, help="A run of g2p-en to tune, with two layers of width 48.")
    parser.add_argument("--masked", type=Path, help="An encoder of hidden letters to tune.")
    parser.add_argument("--only", choices=["notation", "syllables"])
    parser.add_argument("--words", type=int, default=1000, help="Words to learn from.")
    parser.add_argument("--rows", default="", help="Numbers of rows, from 1.")
    parser.add_argument("--json", type=Path, help="Write the table here, too.")
    given = parser.parse_args()
    numbers = {int(number) for number in given.rows.split(",") if number}
    tables: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as place:
        if given.only != "syllables":
            print(f"spelling → phones with stress marks, {given.words:,} words")
            tables["notation"] = notation(given.base, Path(place), numbers, given.words)
        if given.only != "notation":
            print(f"how many syllables, {given.words:,} words")
            tables["syllables"] = syllables(given.masked, Path(place), numbers, given.words)
    if given.json:
        given.json.write_text(json.dumps(tables, indent=1) + "\n", encoding="utf-8")
