"""A small task, learnt in seconds: spell a word backwards."""

import random
from pathlib import Path

SMALL = [
    *("model.layers=1", "model.width=32", "model.heads=2", "model.feedforward.width=64"),
    *("model.dropout.residual=0.1", "model.dropout.embedding=0.1"),
    *("training.batch_tokens=256", "training.threads=1"),
]


def write_pairs(path: Path, count: int = 600, seed: int = 0) -> Path:
    rng = random.Random(seed)
    words = {"".join(rng.choices("abcdefg", k=rng.randint(2, 7))) for _ in range(count)}
    path.write_text("".join(f"{word}\t{' '.join(reversed(word.upper()))}\n" for word in sorted(words)))
    return path
