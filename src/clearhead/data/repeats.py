"""Training examples that come again: the same ones, and the same text with another label.

Of each only numbers are remembered, so that millions fit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clearhead.data.corpus import Corpus
from clearhead.data.formats import Block
from clearhead.data.hashing import hashes


class Repeats:
    """Examples that stood there before; ``every`` says that only this part of all hashes is looked at."""

    def __init__(self, every: int) -> None:
        self._every, self._seen = every, 0
        self._rows: list[NDArray[np.int64]] = []
        self._hashes: list[NDArray[np.uint64]] = []

    def add(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Take note of the next examples, as one text each; which of them are looked at."""
        found = hashes(texts)
        chosen = np.flatnonzero(found % np.uint64(self._every) == 0)
        self._rows.append(self._seen + chosen)
        self._hashes.append(found[chosen])
        self._seen += len(found)
        return chosen

    def sorted(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(places, firsts): where the equal ones stand side by side, the earliest first; and where such a group begins.

        ``firsts`` has, for each of ``places``, the index in it of the first one of its group.
        """
        every = np.concatenate([np.zeros(0, dtype=np.uint64), *self._hashes])
        places = np.argsort(every, kind="stable")
        new = np.diff(every[places], prepend=every[places][:1] + np.uint64(1)) != 0
        return places, np.maximum.accumulate(np.where(new, np.arange(len(places)), 0))

    @property
    def rows(self) -> NDArray[np.int64]:
        """The number of each example that is looked at, counted from 0 over all training examples."""
        return np.concatenate([np.zeros(0, dtype=np.int64), *self._rows])

    def again(self) -> NDArray[np.int64]:
        """The numbers of the examples that stood there before."""
        places, firsts = self.sorted()
        return np.sort(self.rows[places[firsts != np.arange(len(places))]])


class Confusions:
    """Texts that stand there with several labels."""

    def __init__(self, every: int) -> None:
        self._texts = Repeats(every)
        self._numbers: dict[str, int] = {}
        self._labels: list[NDArray[np.int64]] = []

    def add(self, labels: Sequence[str], texts: Sequence[str]) -> None:
        """Take note of the next examples."""
        for label in labels:
            self._numbers.setdefault(label, len(self._numbers))
        chosen = self._texts.add(texts)
        self._labels.append(np.array([self._numbers[labels[index]] for index in chosen.tolist()], dtype=np.int64))

    def found(self) -> list[tuple[int, list[str]]]:
        """For each such text, the number of the first example with another label, and all labels; in this order."""
        places, firsts = self._texts.sorted()
        labels = np.concatenate([np.zeros(0, dtype=np.int64), *self._labels])[places]
        other = np.flatnonzero(labels != labels[firsts])
        rows, names = self._texts.rows[places], list(self._numbers)
        groups: dict[int, tuple[int, set[str]]] = {}
        for index in other.tolist():  # groups one after the other, each in the order of the examples
            first = int(firsts[index])
            group = groups.setdefault(first, (int(rows[index]), {names[labels[first]]}))
            group[1].add(names[labels[index]])
        return sorted((row, sorted(known)) for row, known in groups.values())


@dataclass(frozen=True)
class Shown:
    """An example to show."""

    line: int
    columns: tuple[str, ...]


def examples_at(corpus: Corpus[Any], rows: Sequence[int]) -> Iterator[Shown]:
    """These training examples, given by their ascending numbers."""
    wanted, begin = list(rows), 0
    blocks = corpus.train_blocks()
    while wanted and (block := next(blocks, None)) is not None:
        while wanted and wanted[0] < begin + len(block):
            yield shown_at(block, wanted.pop(0) - begin)
        begin += len(block)


def shown_at(block: Block, index: int) -> Shown:
    """An example of a block."""
    return Shown(block.lines[index], tuple(texts[index] for texts in block.columns))
