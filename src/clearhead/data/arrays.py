"""Encoded pairs as memory-mapped arrays, so that a corpus larger than memory can be trained on.

One side of a part is two files: all ids one after the other, and the place where each line starts.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clearhead.data.pairs import Pair
from clearhead.data.tokens import Codec

_CHUNK = 10_000


@dataclass(frozen=True)
class Side:
    """The ids of one side: line i is ``ids[starts[i] : starts[i + 1]]``."""

    ids: NDArray[np.uint32]
    starts: NDArray[np.int64]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of every line."""
        return np.diff(self.starts)

    def line(self, index: int) -> NDArray[np.uint32]:
        """The ids of one line."""
        return self.ids[self.starts[index] : self.starts[index + 1]]


@dataclass(frozen=True)
class EncodedPairs:
    """Both sides, and how many pairs were too long to be kept."""

    source: Side
    target: Side
    too_long: int

    def __len__(self) -> int:
        return len(self.source.starts) - 1


def write_encoded(
    pairs: Iterable[Pair], source: Codec, target: Codec, folder: Path, name: str, *, max_length: int
) -> None:
    """Encode pairs chunk by chunk into ``folder``; pairs with a side longer than ``max_length`` are counted."""
    folder.mkdir(parents=True, exist_ok=True)
    too_long, kept = 0, 0
    with _Writer(folder / f"{name}.source") as left, _Writer(folder / f"{name}.target") as right:
        for chunk in _chunks(iter(pairs)):
            sources = source.encode([pair.source for pair in chunk])
            targets = target.encode([pair.target for pair in chunk])
            for s, t in zip(sources, targets, strict=True):
                if max(len(s), len(t)) > max_length or not s or not t:
                    too_long += 1
                    continue
                left.add(s)
                right.add(t)
                kept += 1
    (folder / f"{name}.json").write_text(json.dumps({"pairs": kept, "too_long": too_long}), encoding="utf-8")


def read_encoded(folder: Path, name: str) -> EncodedPairs:
    """Map what ``write_encoded`` wrote."""
    info = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return EncodedPairs(_map(folder / f"{name}.source"), _map(folder / f"{name}.target"), info["too_long"])


class _Writer:
    """The two files of one side, while they are written."""

    def __init__(self, stem: Path) -> None:
        self._stack = ExitStack()
        self._ids = self._stack.enter_context(Path(f"{stem}.ids").open("wb"))  # noqa: SIM115 - closed by the stack
        self._starts = self._stack.enter_context(Path(f"{stem}.starts").open("wb"))  # noqa: SIM115
        self._end = 0
        self._starts.write(np.int64(0).tobytes())

    def add(self, ids: list[int]) -> None:
        self._ids.write(np.asarray(ids, dtype=np.uint32).tobytes())
        self._end += len(ids)
        self._starts.write(np.int64(self._end).tobytes())

    def __enter__(self) -> "_Writer":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def _map(stem: Path) -> Side:
    starts: NDArray[np.int64] = np.memmap(f"{stem}.starts", dtype=np.int64, mode="r")
    if not int(starts[-1]):
        return Side(np.zeros(0, dtype=np.uint32), starts)
    return Side(np.memmap(f"{stem}.ids", dtype=np.uint32, mode="r"), starts)


def _chunks(pairs: Iterator[Pair]) -> Iterator[list[Pair]]:
    while chunk := list(islice(pairs, _CHUNK)):
        yield chunk
