"""Encoded examples as memory-mapped arrays, so that a corpus larger than memory can be trained on.

One side of a part is two files: all ids one after the other, and the place where each line starts.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from clearhead.data.examples import Labelled, Pair, Text
from clearhead.data.tokens import Codec

_CHUNK = 10_000
E = TypeVar("E")


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


@runtime_checkable
class Encoded(Protocol):
    """Examples as training needs them."""

    @property
    def too_long(self) -> int:
        """How many examples were longer than ``data.max_length``."""

    @property
    def sizes(self) -> tuple[NDArray[np.int64], ...]:
        """Tokens of every example as a batch holds them; one array for each side that is padded."""

    @property
    def tokens(self) -> int:
        """Tokens of an epoch: what the length of training is measured by."""

    def __len__(self) -> int: ...


@dataclass(frozen=True)
class EncodedPairs:
    """Both sides, and how many pairs were too long to be kept."""

    source: Side
    target: Side
    too_long: int

    def __len__(self) -> int:
        return len(self.source.starts) - 1

    @property
    def sizes(self) -> tuple[NDArray[np.int64], ...]:
        """Tokens of source and target, each with </s>."""
        return self.source.lengths + 1, self.target.lengths + 1

    @property
    def tokens(self) -> int:
        """Target tokens, each line's </s> among them."""
        return int(self.target.starts[-1]) + len(self)


@dataclass(frozen=True)
class EncodedTexts:
    """Lines with the specials that begin and end them, and the number of each line's class, if it has one."""

    text: Side
    labels: NDArray[np.int64]
    """Empty if the lines have no classes."""
    too_long: int
    """Lines that were cut."""

    def __len__(self) -> int:
        return len(self.text.starts) - 1

    @property
    def sizes(self) -> tuple[NDArray[np.int64], ...]:
        """Tokens of every line, its specials among them."""
        return (self.text.lengths,)

    @property
    def tokens(self) -> int:
        """All tokens, the specials among them."""
        return int(self.sizes[0].sum())


@dataclass(frozen=True)
class EncodedWindows(EncodedTexts):
    """Lines whose tokens are predicted one after the other: the last is never fed in, the first never predicted."""

    @property
    def sizes(self) -> tuple[NDArray[np.int64], ...]:
        """Tokens of every line that are predicted."""
        return (self.text.lengths - 1,)


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


def write_texts(
    examples: Iterable[Text | Labelled],
    codec: Codec,
    folder: Path,
    name: str,
    *,
    cut: Callable[[list[int]], list[list[int]]],
    max_length: int,
    labels: Mapping[str, int] | None = None,
) -> None:
    """Encode lines chunk by chunk into ``folder``; ``cut`` says what a model reads of a line, in one sequence or more.

    With ``labels``, the number of each class, the classes of the lines are written too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    too_long = 0
    with _Writer(folder / f"{name}.text") as lines, (folder / f"{name}.labels").open("wb") as classes:
        for chunk in _chunks(iter(examples)):
            for example, ids in zip(chunk, codec.encode([example.text for example in chunk]), strict=True):
                too_long += len(ids) > max_length
                for row in cut(ids):
                    lines.add(row)
                    if labels is not None and isinstance(example, Labelled):
                        classes.write(np.int64(labels[example.label]).tobytes())
    (folder / f"{name}.json").write_text(json.dumps({"too_long": too_long}), encoding="utf-8")


def read_texts(folder: Path, name: str) -> EncodedTexts:
    """Map what ``write_texts`` wrote."""
    info = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    file = folder / f"{name}.labels"
    labels: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
    if file.stat().st_size:
        labels = np.memmap(file, dtype=np.int64, mode="r")
    return EncodedTexts(_map(folder / f"{name}.text"), labels, info["too_long"])


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


def _chunks(examples: Iterator[E]) -> Iterator[list[E]]:
    while chunk := list(islice(examples, _CHUNK)):
        yield chunk
