"""Train, dev and test: explicit files, or a stable split by source. Training pairs are never all in memory."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from clearhead.data.pairs import Pair, Skipped, Where, good_pairs, read_pairs
from clearhead.data.tasks import task_pairs
from clearhead.errors import DataError
from clearhead.recipe import Data

LARGEST_SHARE, MOST_PAIRS = 0.05, 2000
"""What is set aside for dev, and for test, if the recipe does not say."""


@dataclass(frozen=True)
class Corpus:
    """The three parts, and what was left out on the way."""

    spec: Data
    dev: list[Pair]
    test: list[Pair]
    skipped: Skipped
    train_size: int
    _shares: tuple[float, float]

    def train(self) -> Iterator[Pair]:
        """The training pairs, read from their file again each time."""
        for pair in _all_pairs(self.spec, Skipped()):
            if _part(pair.source, *self._shares) == "train":
                yield pair

    def fingerprint(self) -> str:
        """Changes whenever a file behind the corpus changes."""
        digest = hashlib.sha256(repr((self.spec.task, self.spec.stress, self._shares)).encode())
        for where in (self.spec.train, self.spec.dev, self.spec.test):
            for name in [where] if isinstance(where, str) else where or []:
                with Path(name).open("rb") as stream:
                    for block in iter(partial(stream.read, 1 << 20), b""):
                        digest.update(block)
        return digest.hexdigest()


def read_corpus(spec: Data) -> Corpus:
    """Read what ``[data]`` names: dev and test into memory, training pairs only to check and count them."""
    if spec.task == "none" and spec.train is None:
        raise DataError("nothing to train on: name a file of pairs, a task, or data.train in the recipe")
    skipped = Skipped()
    total = sum(1 for _ in _all_pairs(spec, skipped))
    if spec.bad_lines == "refuse":
        skipped.refuse()
    shares = _shares(spec, total)
    parts: dict[str, list[Pair]] = {"dev": [], "test": []}
    if any(shares):
        for pair in _all_pairs(spec, Skipped()):
            if (part := _part(pair.source, *shares)) != "train":
                parts[part].append(pair)
    train_size = total - len(parts["dev"]) - len(parts["test"])
    for part, where in (("dev", spec.dev), ("test", spec.test)):
        if where is not None:
            parts[part], left_out = read_pairs(where, spec.bad_lines)
            for bad in left_out.first:
                skipped.add(bad)
    if not train_size or not parts["dev"]:
        raise DataError(f"{total} pairs are too few to set some aside for dev: give more, or a file for data.dev")
    return Corpus(spec, parts["dev"], parts["test"], skipped, train_size, shares)


def _all_pairs(spec: Data, skipped: Skipped) -> Iterator[Pair]:
    if spec.task != "none":
        yield from task_pairs(spec.task, stress=spec.stress)
    elif spec.train is not None:
        yield from good_pairs(spec.train, skipped)


def _shares(spec: Data, total: int) -> tuple[float, float]:
    """Which part of the training file goes to dev and to test."""
    usual = min(LARGEST_SHARE, MOST_PAIRS / total) if total else 0.0
    dev = 0.0 if spec.dev is not None else usual if spec.dev_share is None else spec.dev_share
    # whoever brings a dev file and no test file keeps the test elsewhere
    brought = spec.test is not None or (spec.dev is not None and spec.test_share is None)
    return dev, 0.0 if brought else usual if spec.test_share is None else spec.test_share


def _part(source: str, dev: float, test: float) -> str:
    """Decided by the source alone, so that its alternatives stay together and a pair stays where it is as data grow."""
    if not dev and not test:
        return "train"
    digest = hashlib.blake2b(source.encode("utf-8"), digest_size=8).digest()
    place = int.from_bytes(digest, "big") / 2**64  # in [0, 1)
    return "dev" if place < dev else "test" if place < dev + test else "train"


__all__ = ["Corpus", "Where", "read_corpus"]
