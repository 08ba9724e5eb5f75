"""Encoded examples as memory-mapped arrays, so that a corpus larger than memory can be trained on.

One side of a part is two files: all ids one after the other, and the place where each line starts.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from clearhead.data.bulk import BulkEncoder, Rows
from clearhead.data.tokens import Codec
from clearhead.data.working import Columns, results_of

Frames = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]
"""The tokens before and after every source, and before and after every target."""


_MANY = 1 << 20
"""Examples that are looked at together."""


@dataclass(frozen=True)
class Side:
    """The ids of one side: line i is ``ids[starts[i] : starts[i + 1]]``."""

    ids: NDArray[np.uint32]
    starts: NDArray[np.int64]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of every line."""
        return np.diff(self.starts)

    def lengths_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Tokens of these lines; of the others nothing is read."""
        lengths: NDArray[np.int64] = self.starts[rows + 1] - self.starts[rows]
        return lengths

    def line(self, index: int) -> NDArray[np.uint32]:
        """The ids of one line."""
        return self.ids[self.starts[index] : self.starts[index + 1]]


@runtime_checkable
class Encoded(Protocol):
    """Examples as training needs them."""

    @property
    def too_long(self) -> int:
        """How many examples were longer than ``data.max_length``."""

    def sizes_of(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """Tokens of these examples as a batch holds them; one array for each side that is padded."""

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
    framed: bool = False
    """Whether the sources already have all that stands around them."""
    beside: int = 0
    """How many pairs, the last ones, are those of ``data.more``."""

    def __len__(self) -> int:
        return len(self.source.starts) - 1

    def sizes_of(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """Tokens of source and target, each with </s>."""
        return self.source.lengths_of(rows) + (not self.framed), self.target.lengths_of(rows) + 1

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

    def sizes_of(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """Tokens of the lines, their specials among them."""
        return (self.text.lengths_of(rows),)

    @property
    def tokens(self) -> int:
        """All tokens, the specials among them."""
        return int(self.text.starts[-1])


@dataclass(frozen=True)
class EncodedWindows(EncodedTexts):
    """Lines whose tokens are predicted one after the other: the last is never fed in, the first never predicted."""

    def sizes_of(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """Tokens of the lines that are predicted."""
        return (self.text.lengths_of(rows) - 1,)

    @property
    def tokens(self) -> int:
        """All tokens that are predicted."""
        return int(self.text.starts[-1]) - len(self)


def all_sizes(examples: Encoded) -> Iterator[tuple[NDArray[np.int64], ...]]:
    """The sizes of all examples, many at once."""
    for start in range(0, len(examples), _MANY):
        yield examples.sizes_of(np.arange(start, min(start + _MANY, len(examples))))


def write_encoded(
    blocks: Iterable[Columns],
    source: Codec,
    target: Codec,
    folder: Path,
    name: str,
    *,
    max_length: int,
    frames: Frames | None = None,
    own: int | None = None,
) -> None:
    """Encode pairs block by block into ``folder``; pairs with a side longer than ``max_length`` are counted.

    A block is some sources and as many targets. ``frames`` are the tokens before and after each source, and before and
    after each target, if an imported tokenizer says so; without them a source is followed by its end token in a batch.
    The first ``own`` pairs are those of the data themselves, and the others those of ``data.more``; without it all are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    left, right = BulkEncoder(source), BulkEncoder(target)

    def encoded(block: Columns) -> tuple[Rows, Rows, NDArray[np.bool_]]:
        s, t = (encoder.encode(texts) for encoder, texts in zip((left, right), block, strict=True))
        fits = (np.minimum(s.lengths, t.lengths) > 0) & (np.maximum(s.lengths, t.lengths) <= max_length)
        s, t = _only(s, fits), _only(t, fits)
        return (s, t, fits) if frames is None else (_framed(s, *frames[0]), _framed(t, *frames[1]), fits)

    pairs, kept, kept_own = 0, 0, 0
    with _Writer(folder / f"{name}.source") as sources, _Writer(folder / f"{name}.target") as targets:
        for s, t, fits in results_of(blocks, encoded):
            sources.add(s)
            targets.add(t)
            kept_own += int(fits[: None if own is None else max(0, own - pairs)].sum())
            pairs += len(fits)
            kept += len(s.lengths)
    info = {"pairs": kept, "too_long": pairs - kept} | ({} if frames is None else {"framed": True})
    info |= {"beside": kept - kept_own} if kept > kept_own else {}
    (folder / f"{name}.json").write_text(json.dumps(info), encoding="utf-8")


def _framed(rows: Rows, before: Sequence[int], after: Sequence[int]) -> Rows:
    """Each row with tokens before and after it."""
    if not len(rows.lengths) or not (before or after):
        return rows
    first, last = np.array(before, rows.ids.dtype), np.array(after, rows.ids.dtype)
    parts = [np.concatenate((first, part, last)) for part in np.split(rows.ids, np.cumsum(rows.lengths)[:-1])]
    return Rows(np.concatenate(parts), rows.lengths + len(before) + len(after))


def _only(rows: Rows, chosen: NDArray[np.bool_]) -> Rows:
    """Those rows that are chosen."""
    if chosen.all():
        return rows
    return Rows(rows.ids[np.repeat(chosen, rows.lengths)], rows.lengths[chosen])


def read_encoded(folder: Path, name: str) -> EncodedPairs:
    """Map what ``write_encoded`` wrote."""
    info = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    source, target = _map(folder / f"{name}.source"), _map(folder / f"{name}.target")
    return EncodedPairs(
        source, target, info["too_long"], framed=info.get("framed", False), beside=info.get("beside", 0)
    )


def write_texts(
    blocks: Iterable[Columns],
    codec: Codec,
    folder: Path,
    name: str,
    *,
    cut: Callable[[list[int]], list[list[int]]],
    max_length: int,
    labels: Mapping[str, int] | None = None,
) -> None:
    """Encode lines block by block into ``folder``; ``cut`` says what a model reads of a line, in one sequence or more.

    A block is some texts; with ``labels``, the number of each class, it is their classes, which are written too, and
    the texts.
    """
    folder.mkdir(parents=True, exist_ok=True)
    encoder, too_long = BulkEncoder(codec), 0

    def encoded(block: Columns) -> tuple[Rows, int, NDArray[np.int64]]:
        *given, texts = block
        found = encoder.encode(texts)
        rows = [cut(ids) for ids in found.lists()]
        numbers = np.array([labels[label] for label in given[0]] if labels is not None else (), dtype=np.int64)
        repeated = np.repeat(numbers, [len(row) for row in rows]) if labels is not None else numbers
        return _joined(rows), int((found.lengths > max_length).sum()), repeated

    with _Writer(folder / f"{name}.text") as lines, (folder / f"{name}.labels").open("wb") as classes:
        for rows, long, numbers in results_of(blocks, encoded):
            lines.add(rows)
            too_long += long
            classes.write(numbers.tobytes())
    (folder / f"{name}.json").write_text(json.dumps({"too_long": too_long}), encoding="utf-8")


def _joined(lines: Sequence[Sequence[Sequence[int]]]) -> Rows:
    """The sequences of all lines."""
    rows = list(chain.from_iterable(lines))
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    return Rows(np.fromiter(chain.from_iterable(rows), dtype=np.uint32, count=int(lengths.sum())), lengths)


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

    def add(self, rows: Rows) -> None:
        self._ids.write(rows.ids.tobytes())
        self._starts.write((self._end + np.cumsum(rows.lengths)).tobytes())
        self._end += int(rows.lengths.sum())

    def __enter__(self) -> "_Writer":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def _map(stem: Path) -> Side:
    starts: NDArray[np.int64] = np.memmap(f"{stem}.starts", dtype=np.int64, mode="r")
    if not int(starts[-1]):
        return Side(np.zeros(0, dtype=np.uint32), starts)
    return Side(np.memmap(f"{stem}.ids", dtype=np.uint32, mode="r"), starts)
