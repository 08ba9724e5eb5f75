"""Ids of very many texts, for the arrays that training reads: each distinct word is given to the tokenizer once.

Our tokenizers cut a text at its spaces (the one of characters everywhere) before anything else, so that the ids of a
text are those of its words, one after the other. Texts in which something else separates words are tokenized whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, repeat

import numpy as np
from numpy.typing import NDArray

from clearhead.data.texts import words_of
from clearhead.data.tokens import Codec

_UNITS, _CHARACTERS = 300_000, 10_000_000
"""Distinct words that are remembered, at most, and characters of them; beyond that they are learnt anew."""
_MARK = "▁"
"""What stands for a space inside unigram pieces; in a text it would be taken for one."""


@dataclass(frozen=True)
class Rows:
    """The ids of n texts, one after the other."""

    ids: NDArray[np.uint32]
    """(tokens,)"""
    lengths: NDArray[np.int64]
    """(n,) Tokens of each text."""

    def lists(self) -> list[list[int]]:
        """The ids of each text."""
        ids, ends = self.ids.tolist(), np.cumsum(self.lengths).tolist()
        return [ids[end - length : end] for end, length in zip(ends, self.lengths.tolist(), strict=True)]


class BulkEncoder:
    """The same ids as ``codec.encode`` gives, many times faster where words come again."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._kind = codec.kind if codec.own else None  # how another library's tokenizer cuts is its own affair
        self._table = _Table()

    def encode(self, texts: Sequence[str]) -> Rows:
        """Ids of each text."""
        units, counts = self._cut(texts)
        if not self._table.has_room:
            self._table = _Table()
        found = self._table.look_up(units, self._codec)
        # a text ends where its last unit does
        ends = np.concatenate([[0], np.cumsum(found.lengths)])[np.cumsum(counts)]  # (texts,)
        return Rows(found.ids, np.diff(ends, prepend=0))

    def _cut(self, texts: Sequence[str]) -> tuple[Sequence[str], NDArray[np.int64]]:
        """What is looked up, one after the other, and how many of it each text has."""
        if self._kind is None:
            return texts, np.ones(len(texts), dtype=np.int64)
        if self._kind == "characters":
            return "".join(texts), _sizes(texts)
        return words_of(texts, whole_with=_MARK if self._kind == "unigram" else "")


class _Table:
    """The ids of words, or characters, that were met before."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self._characters = 0
        self._ids: NDArray[np.uint32] = np.zeros(0, dtype=np.uint32)  # of all units, one after the other
        self._sizes: NDArray[np.int64] = np.zeros(0, dtype=np.int64)  # (units,)

    @property
    def has_room(self) -> bool:
        return len(self.numbers) < _UNITS and self._characters < _CHARACTERS

    def look_up(self, units: Sequence[str], codec: Codec) -> Rows:
        """The ids of each unit; what is new is tokenized."""
        chosen = np.fromiter(map(self.numbers.get, units, repeat(-1)), dtype=np.int64, count=len(units))
        new = np.flatnonzero(chosen < 0)
        if len(new):
            unknown = [units[index] for index in new.tolist()]
            self._learn(list(dict.fromkeys(unknown)), codec)
            chosen[new] = [self.numbers[unit] for unit in unknown]
        lengths = self._sizes[chosen]
        starts = (np.cumsum(self._sizes) - self._sizes)[chosen]
        ends = np.cumsum(lengths)
        # token t of a unit stands at its start + t: a number that counts on over all tokens, moved at each unit
        places = np.arange(int(lengths.sum())) + np.repeat(starts - (ends - lengths), lengths)
        return Rows(self._ids[places], lengths)

    def _learn(self, units: Sequence[str], codec: Codec) -> None:
        rows = codec.encode(units)
        sizes = _sizes(rows)
        ids = np.fromiter(chain.from_iterable(rows), dtype=np.uint32, count=int(sizes.sum()))
        self.numbers |= {unit: number for number, unit in enumerate(units, start=len(self.numbers))}
        self._characters += sum(map(len, units))
        self._ids = np.concatenate([self._ids, ids])
        self._sizes = np.concatenate([self._sizes, sizes])


def _sizes(parts: Sequence[Sequence[object]]) -> NDArray[np.int64]:
    return np.fromiter(map(len, parts), dtype=np.int64, count=len(parts))
