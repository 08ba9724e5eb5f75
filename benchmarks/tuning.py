"""Tuning beside training from scratch, on real data: the same examples, the same steps, the same seed.

    python -m benchmarks.tuning [--base RUN] [--masked RUN] [--only notation|syllables] [--words 1000] [--rows 1,3]
    python -m benchmarks.tuning --only languages [--lists /usr/share/dict] [--seeds 5] [--labels 25]

notation: an encoder-decoder that has learnt English spelling → phones (g2p-en) is tuned to 1,000 words of another
notation, phones with stress marks (``K AE1 B AH0 JH``), of which its vocabulary knows the consonants alone. ``--base``
names the trained model; without it one is trained for 500 steps. The test words are from the test part of g2p-en, on
which the base was not trained.

syllables: an encoder that has learnt to fill in hidden letters of 50,000 English words is tuned to say how many
syllables a word has (one, two, three, more), from 1,000 words whose answer the dictionary has: a question that formulas
of readability ask of every word, and that spelling answers only with exceptions. No test word is among the 50,000.
``--masked`` names the encoder; without it one is trained for 500 steps.

languages: an encoder that has learnt to fill in hidden letters of 40,000 words of eight languages, mixed and without
labels, is tuned to say which language a word is from, from 25 labelled words of each. They are Debian's lists (packages
wamerican, wdutch, wfrench, witalian, wngerman, wpolish, wportuguese, wspanish; ``--lists`` names the folder they are
in). No test word is among the unlabelled ones. Each seed draws other labelled words and other weights, pre-trains its
own encoder and trains every row; the test words stay the same. Gains are paired, by seed and test word, and a bootstrap
draws both anew. Rates and steps were chosen with a seed that is not among these (11), on 250 more words of each
language.

Steps are the clock, so that a busy machine changes nothing but the time. Scores are on test words, with intervals of
95 %. ``--rows`` picks rows of the table by number, so that they can be computed apart.
"""

import argparse
import json
import math
import random
import re
import statistics
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import clearhead
from clearhead.data import PAIRS, Pair, read_corpus
from clearhead.recipe import read_recipe

SEED = 1
DEV, TEST = 100, 500
COMMON = [f"training.seed={SEED}", "training.threads=1", "training.average=0.98", "decoding.beam_size=1"]
LETTERS = re.compile("[a-z]+")
Pairs = list[tuple[str, str]]

LANGUAGES = ("american-english", "dutch", "french", "italian", "ngerman", "polish", "portuguese", "spanish")
UNLABELLED, DEV_EACH, TEST_EACH = 5_000, 25, 125
"""Words of each language."""
SPELLER = ["model.layers=2", "model.width=64", "model.heads=4", "data.source.kind=characters"]
SPELLING = ["model.family=encoder", "training.batch_tokens=4096", "training.masking.share=0.3"]
SPELLING += ["training.optimizer.rate=3e-3"]
SPELLING_STEPS, NAMING_STEPS = 1_500, 300
DRAWS = 10_000
STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
"""By the number of seeds, half of an interval of 95 % in standard errors of a mean (Student's t)."""

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


def language_rows(base: Path) -> Iterator[Row]:
    """From scratch and tuned by the same recipe; each with the rate that suits it better; from scratch for longer."""
    common = ["model.family=classifier", "training.batch_tokens=512"]
    fast, usual, slow = (f"training.optimizer.rate={rate}" for rate in ("3e-3", "1e-3", "3e-4"))
    yield Row("from scratch", None, NAMING_STEPS, [*SPELLER, *common, usual])
    yield Row("all weights tuned, new head", base, NAMING_STEPS, [*common, usual])
    yield Row("from scratch, 3 × the rate", None, NAMING_STEPS, [*SPELLER, *common, fast])
    yield Row("all weights tuned, 0.3 × the rate", base, NAMING_STEPS, [*common, slow])
    yield Row("from scratch, 3 × the rate, 4 × the steps", None, 4 * NAMING_STEPS, [*SPELLER, *common, fast])


GAINS = ((0, 1), (2, 3), (4, 3))
"""Which rows are compared: from scratch, tuned."""


def languages(lists: Path, folder: Path, seeds: int, labels: int) -> list[dict[str, Any]]:
    """Which language a word is from, with ``labels`` words of each, after 40,000 unlabelled ones."""
    words = _words_of_languages(lists)
    held = TEST_EACH + DEV_EACH
    parts = {"test": slice(0, TEST_EACH), "dev": slice(TEST_EACH, held)}
    data = {part: [(name, word) for name in words for word in words[name][some]] for part, some in parts.items()}
    found: dict[str, dict[str, Any]] = {}
    for seed in range(1, seeds + 1):
        rng = random.Random(seed)
        lines = [word for name in words for word in words[name][held:]]
        rng.shuffle(lines)
        data["train"] = [(name, word) for name in words for word in rng.sample(words[name][held:], labels)]
        masked = clearhead.train(
            lines,
            folder / f"speller-{seed}",
            steps=SPELLING_STEPS,
            settings=[*COMMON, *SPELLER, *SPELLING, f"training.seed={seed}"],
        )
        print(f"seed {seed}: hidden letters, {masked.scores['test']}", flush=True)
        for number, row in enumerate(language_rows(masked.folder), start=1):
            seeded = Row(row.name, row.start, row.steps, [*row.settings, f"training.seed={seed}"])
            output = folder / f"languages-{seed}-{number}"
            scores = _trained(seeded, data, output)
            kept = found.setdefault(row.name, {"row": row.name, "steps": row.steps, "accuracy": [], "right": []})
            kept["accuracy"].append(scores["accuracy"][0])
            kept["right"].append(_right(output, data["test"]))
    for one in found.values():
        mean, half = _mean(one["accuracy"])
        print(f"{one['row']:<42}{one['steps']:>5} steps  accuracy {mean:.1f} ± {half:.1f}", flush=True)
    rows = list(found.values())
    for scratch, tuned in ((rows[one], rows[other]) for one, other in GAINS):
        mean, low, high = _gain(scratch["right"], tuned["right"])
        print(f"{tuned['row']}: {mean:+.1f} ({low:+.1f} to {high:+.1f}) points against {scratch['row']}", flush=True)
    return [{name: value for name, value in one.items() if name != "right"} for one in rows]


def _right(run: Path, pairs: Pairs) -> list[bool]:
    """Of which words a classifier names the language."""
    answers = clearhead.load(run).generate([word for _, word in pairs])
    return [answer == name for answer, (name, _) in zip(answers, pairs, strict=True)]


def _gain(before: list[list[bool]], after: list[list[bool]]) -> tuple[float, float, float]:
    """The mean gain in points, and its interval of 95 %: seeds and test words are drawn anew, with replacement."""
    gains = 100.0 * (np.array(after, dtype=float) - np.array(before, dtype=float))  # (seeds, words)
    rng = np.random.default_rng(SEED)
    seeds, words = gains.shape
    means = [gains[rng.integers(seeds, size=seeds)][:, rng.integers(words, size=words)].mean() for _ in range(DRAWS)]
    low, high = np.quantile(means, (0.025, 0.975))
    return float(gains.mean()), float(low), float(high)


def _words_of_languages(lists: Path) -> dict[str, list[str]]:
    """Words of 4 to 16 letters in lower case that one of the lists has alone: those of the test, of dev, the others."""
    rng = random.Random(SEED)
    lists_of: dict[str, set[str]] = {}
    for name in LANGUAGES:
        words = {word.strip().lower() for word in (lists / name).read_text(encoding="utf-8").splitlines()}
        lists_of[name] = {word for word in words if word.isalpha() and 4 <= len(word) <= 16}
    several = Counter(word for words in lists_of.values() for word in words)
    size = TEST_EACH + DEV_EACH + UNLABELLED
    return {
        name: rng.sample(sorted(word for word in words if several[word] == 1), size) for name, words in lists_of.items()
    }


def _mean(values: list[float]) -> tuple[float, float]:
    """The mean, and half of its interval of 95 %."""
    if len(values) < 2:
        return statistics.fmean(values), math.nan
    return statistics.fmean(values), STUDENT[len(values)] * statistics.stdev(values) / math.sqrt(len(values))


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
    parser.add_argument("--only", choices=["notation", "syllables", "languages"])
    parser.add_argument("--lists", type=Path, default=Path("/usr/share/dict"), help="Folder of Debian's word lists.")
    parser.add_argument("--seeds", type=int, default=5, choices=range(2, 11), help="Seeds of languages.")
    parser.add_argument("--labels", type=int, default=25, help="Labelled words of each language.")
    parser.add_argument("--words", type=int, default=1000, help="Words to learn from.")
    parser.add_argument("--rows", default="", help="Numbers of rows, from 1.")
    parser.add_argument("--json", type=Path, help="Write the table here, too.")
    given = parser.parse_args()
    numbers = {int(number) for number in given.rows.split(",") if number}
    tables: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as place:
        if given.only in (None, "notation"):
            print(f"spelling → phones with stress marks, {given.words:,} words")
            tables["notation"] = notation(given.base, Path(place), numbers, given.words)
        if given.only in (None, "syllables"):
            print(f"how many syllables, {given.words:,} words")
            tables["syllables"] = syllables(given.masked, Path(place), numbers, given.words)
        if given.only == "languages":
            print(f"which of {len(LANGUAGES)} languages, {given.labels} words of each")
            tables["languages"] = languages(given.lists, Path(place), given.seeds, given.labels)
    if given.json:
        given.json.write_text(json.dumps(tables, indent=1) + "\n", encoding="utf-8")
