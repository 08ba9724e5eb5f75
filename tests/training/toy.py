"""Small tasks, learnt in seconds: spell a word backwards, continue counting letters, say which way they went."""

import random
from pathlib import Path

LONG_WINDED = [
    *("model.layers=1", "model.width=32", "model.heads=2", "model.feedforward.width=64"),
    *("model.dropout.residual=0.1", "model.dropout.embedding=0.1"),
    *("training.batch_tokens=256", "training.threads=1"),
]
"""A small model that may write long answers."""
SMALL = [*LONG_WINDED, "decoding.max_length=12"]
"""The same for answers of these tasks: what has not learnt when to stop is stopped."""

FEW = 150
"""Pairs enough for a run whose files and steps matter, and not what it learns."""


def write_pairs(path: Path, count: int = 600, seed: int = 0) -> Path:
    rng = random.Random(seed)
    words = {"".join(rng.choices("abcdefg", k=rng.randint(2, 7))) for _ in range(count)}
    path.write_text("".join(f"{word}\t{' '.join(reversed(word.upper()))}\n" for word in sorted(words)))
    return path


def write_lines(path: Path, count: int = 400, seed: int = 0) -> Path:
    """Lines of letters, each the next or the one after it: b c e f g a."""
    rng = random.Random(seed)
    path.write_text("".join(f"{_letters(rng)}\n" for _ in range(count)))
    return path


def write_labels(path: Path, count: int = 400, seed: int = 0) -> Path:
    """Such lines, and whether they end higher than they began."""
    rng = random.Random(seed)
    lines = [_letters(rng) for _ in range(count)]
    path.write_text("".join(f"{'up' if line[-1] > line[0] else 'down'}\t{line}\n" for line in lines))
    return path


def _letters(rng: random.Random) -> str:
    place, line = rng.randrange(7), []
    for _ in range(rng.randint(3, 10)):
        line.append("abcdefg"[place])
        place = (place + rng.choice((1, 1, 1, 2))) % 7
    return " ".join(line)


FAMILIES = {"lm": write_lines, "encoder": write_lines, "classifier": write_labels}
"""The families that do not learn from pairs, and a function that writes data for each."""
