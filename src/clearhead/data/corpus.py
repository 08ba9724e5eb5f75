"""Train, dev and test: explicit files, or a stable split. Every file is read once; training examples stay on disk."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress, islice
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from clearhead.data.english import read_english
from clearhead.data.examples import Example
from clearhead.data.fingerprint import Fingerprint, KnownFingerprint, Shares
from clearhead.data.formats import Block, Format, Scan, ScanPart, Where, files_of, shown
from clearhead.data.hashing import hashes
from clearhead.data.layout import Layout
from clearhead.data.lines import Watch
from clearhead.data.skipped import BadLine, Skipped
from clearhead.data.spool import Spool, SpooledBlock, Unread
from clearhead.data.tasks import task_examples
from clearhead.data.working import Progress, TextBlocks, unwatched
from clearhead.errors import DataError
from clearhead.recipe import TASKS, DataSpec
from clearhead.workers import WorkerPool

LARGEST_SHARE, MOST_EXAMPLES = 0.05, 2000
"""What is set aside for dev, and for test, if the recipe does not say."""
MOST_LABELS = 100
"""Different values that a column of labels may have, to be noticed."""
_CHUNK = 10_000
LARGE = 32 << 20
"""Bytes of training data from which on several processes work on them."""
E = TypeVar("E", bound=Example)


@dataclass(frozen=True)
class Corpus(Generic[E]):
    """The three parts, and what was left out on the way."""

    spec: DataSpec
    format: Format[E]
    dev: list[E]
    test: list[E]
    skipped: Skipped
    train_size: int
    _shares: Shares
    _spool: Spool | Unread
    """All examples of the training file, those of dev and test among them; then those of ``data.more``."""
    _fingerprint: Fingerprint | KnownFingerprint
    notes: tuple[str, ...] = ()
    """What was decided about the files that their owner should know: a header, columns by name, likely labels."""
    workers: int = 1
    """Processes that may work on the training examples, if there are many."""
    beside: int = 0
    """How many of the training examples are those of ``data.more``: the last ones."""
    progress: Progress = unwatched

    def train(self) -> Iterator[E]:
        """The training examples, one by one and as often as wanted: their file is not read again."""
        for block in self.train_blocks():
            yield from self.format.examples(block)

    def train_blocks(self) -> Iterator[Block]:
        """The training examples, many at once."""
        for block in self._spool:
            yield _chosen(block, _parts(block.places, self._shares) == _TRAIN)

    def train_columns(self) -> TextBlocks[SpooledBlock]:
        """Only their texts: of each block the columns, in the order of ``format.columns``."""
        kept = partial(iter, self._spool)
        if self._spool.size < LARGE:
            return TextBlocks(kept, self._columns_of)
        total = self.train_size + (len(self.dev) + len(self.test) if any(self._shares) else 0)
        return TextBlocks(kept, self._columns_of, workers=self.workers, progress=self.progress, total=total)

    def _columns_of(self, block: SpooledBlock) -> Sequence[Sequence[str]]:
        return _chosen(block, _parts(block.places, self._shares) == _TRAIN).columns

    def train_texts(self, column: str, every: int = 1) -> "TrainTexts":
        """The texts of a column of the training examples; of ``every`` so many the first."""
        return TrainTexts(self, column, every)

    def release(self) -> None:
        """Give back what the training examples take on the disk; dev and test stay."""
        self._spool.release()

    def fingerprint(self) -> str:
        """Changes whenever a file behind the corpus changes; it is that of the bytes that were read."""
        return self._fingerprint.value(self._shares)

    @property
    def checksums(self) -> dict[str, str]:
        """SHA-256 of each file behind the corpus, as it was read."""
        return self._fingerprint.checksums


class TrainTexts:
    """Texts of training examples, evenly spread: as many iterations as wanted, each over the spool of the corpus."""

    def __init__(self, corpus: Corpus[Any], column: str, every: int) -> None:
        self._corpus, self._every = corpus, every
        self._column = corpus.format.columns.index(column)

    def __len__(self) -> int:
        return len(range(0, self._corpus.train_size, self._every))

    def __iter__(self) -> Iterator[str]:
        seen = 0
        for block in self._corpus._spool:
            chosen = np.flatnonzero(_parts(block.places, self._corpus._shares) == _TRAIN)
            wanted, seen = chosen[-seen % self._every :: self._every], seen + len(chosen)
            if len(wanted):
                texts = block.column(self._column)
                yield from (texts[index] for index in wanted.tolist())


def read_corpus(
    spec: DataSpec, format: Format[E], folder: Path | None = None, *, workers: int = 1, progress: Progress = unwatched
) -> Corpus[E]:
    """Read what ``[data]`` names, every file once: dev and test into memory, training examples into a spool on disk.

    ``folder`` is where the spool is made, if it takes more than a few megabytes; the temporary folder without it. Large
    files are parsed by so many ``workers``, and ``progress`` is told how many bytes of them are read.
    """
    if spec.task == "none" and spec.train is None:
        raise DataError(f"nothing to train on: name a file of {format.name}, a task, or data.train in the recipe")
    usual, format = format, format.selecting(spec.columns)
    skipped, few = Skipped(), _FewValues(format)
    fingerprint = Fingerprint(spec, shares_of(spec, 0))
    spool, total, notes = Spool(shown(spec.train or ""), folder), 0, []
    layout, scan = None, None
    if spec.task != "none" or spec.train is None:
        blocks: Iterator[SpooledBlock] = (_packed(block, format) for block in _task_blocks(spec, format))
    else:
        large = _bytes(spec.train) >= LARGE
        watching = _counting(fingerprint.watching, spec.train, progress) if large else fingerprint.watching
        scan = Scan(format, spec.train, watching)
        blocks, layout = _good(scan, skipped, workers if large else 1), scan.layout
    for block in blocks:
        few.watch(block)
        spool.add(block)
        total += len(block)
    if scan is not None:
        notes += scan.notes
    if spec.train is not None:
        format.refuse_strange(spec.train, total, skipped, spec.bad_lines)
    shares = shares_of(spec, total)
    parts = _held_out(spool, format, shares) if any(shares) else {"dev": [], "test": []}
    train_size = total - len(parts["dev"]) - len(parts["test"])
    for part, where in (("dev", spec.dev), ("test", spec.test)):
        if where is not None:
            held_out = Scan(format, where, fingerprint.watching)
            parts[part], left_out = format.taken(held_out, where, spec.bad_lines)
            skipped.add_all(left_out)
            notes += held_out.notes
    hint = few.hint(spec.train, total, layout)
    beside = 0
    if spec.more is not None:
        held = [*parts["dev"], *parts["test"]]
        of_more = format if spec.columns is None or isinstance(spec.more, list) or format.fits(spec.more) else usual
        found = _add_more(spool, spec, of_more, held, fingerprint=fingerprint, skipped=skipped, workers=workers)
        beside, train_size = found.size, train_size + found.size
        notes += found.notes
    if train_size <= 0 or not parts["dev"]:
        reason = f"{total} {format.name} are too few to set some aside for dev: give more, or a file for data.dev"
        raise DataError("\n".join([reason, *hint]))
    return Corpus(
        spec,
        format,
        parts["dev"],
        parts["test"],
        skipped,
        train_size,
        shares,
        spool,
        fingerprint,
        (*notes, *hint),
        workers,
        beside,
        progress,
    )


class _More(NamedTuple):
    """What was added to the training examples."""

    size: int
    notes: list[str]


def _add_more(
    spool: Spool,
    spec: DataSpec,
    format: Format[E],
    held_out: Sequence[E],
    *,
    fingerprint: Fingerprint,
    skipped: Skipped,
    workers: int,
) -> _More:
    """Add what ``data.more`` names, but for what dev or test ask: else training would be told their answers."""
    where, place = spec.more, format.columns.index(format.question)
    assert where is not None
    read: Callable[[str], str] = str.lower if spec.case == "lower" else str
    asked = set(map(read, format.column(format.block(held_out), format.question)))
    scan, bad = Scan(format, where, fingerprint.watching), Skipped()
    size = left_out = strange = 0
    for block in _good(scan, bad, workers if _bytes(where) >= LARGE else 1):
        columns = list(block.columns())
        if spec.task == "g2p-en":
            columns[place] = list(map(_word, columns[place]))
        empty = np.array([not text for text in columns[place]], dtype=bool)
        new = np.array([read(text) not in asked for text in columns[place]], dtype=bool) & ~empty
        chosen = Block(block.lines[new].tolist(), tuple(list(compress(texts, new.tolist())) for texts in columns))
        if len(chosen):
            spool.add(SpooledBlock.of(chosen, np.full(len(chosen), ALWAYS_TRAIN)))
        size += len(chosen)
        strange += int(empty.sum())
        left_out += len(block) - len(chosen) - int(empty.sum())
    format.refuse_strange(where, size + strange + left_out, bad, spec.bad_lines)
    skipped.add_all(bad)
    apart = f"; {left_out:,} others are left out, as dev or test ask for them" if left_out else ""
    apart += f"; {strange:,} are left out, as they are not one word" if strange else ""
    return _More(size, [*scan.notes, f"{size:,} training {format.name} are from {shown(where)}{apart}"])


def _word(text: str) -> str:
    """A word as a model of the task g2p-en reads it; nothing if the text is not one word."""
    words = read_english(text).words
    return words[0] if len(words) == 1 else ""


def _good(scan: Scan[Any], skipped: Skipped, workers: int) -> Iterator[SpooledBlock]:
    """The examples of files, parsed by several processes; what is none is noted."""

    def parsed(part: ScanPart) -> tuple[SpooledBlock, list[BadLine]]:
        block, bad = scan.parse(part)
        return _packed(block, scan.format), bad

    with WorkerPool(parsed, workers, computes=False) as pool:
        for block, bad in pool.results(scan.parts()):
            for line in bad:
                skipped.add(line)
            yield block


def _packed(block: Block, format: Format[Any]) -> SpooledBlock:
    return SpooledBlock.of(block, hashes(format.column(block, format.question)))


def _bytes(where: Where) -> int:
    """How large files are; 0 for what has no size, such as a pipe."""
    files = map(Path, files_of(where) if isinstance(where, str) else where)
    return sum(file.stat().st_size for file in files if file.is_file())


def _counting(watching: Callable[[str], Watch], where: Where, progress: Progress) -> Callable[[str], Watch]:
    """The same, and ``progress`` is told of the bytes that were seen so far."""
    total, seen = _bytes(where), 0

    def counted(file: str) -> Watch:
        watch = watching(file)

        def count(piece: memoryview) -> None:
            nonlocal seen
            watch(piece)
            seen += len(piece)
            progress("reading", seen, total or None)

        return count

    return counted


def _task_blocks(spec: DataSpec, format: Format[Any]) -> Iterator[Block]:
    examples = iter(task_examples(spec))
    while chunk := list(islice(examples, _CHUNK)):
        yield format.block(chunk)


# ---- the split: decided by the key alone, so that examples that share it stay together, and stay as data grow ----

_DEV, _TEST, _TRAIN = range(3)
ALWAYS_TRAIN = np.uint64(2**64 - 1)
"""The last place: dev and test end before it."""


def _parts(places: NDArray[np.uint64], shares: Shares) -> NDArray[np.int64]:
    """(n,) Which part each example belongs to: dev has the first places, the hashes of keys, and test the next ones."""
    dev, test = shares
    return np.searchsorted([dev, dev + test], places / 2.0**64, side="right")


def shares_of(spec: DataSpec, total: int) -> Shares:
    """Which part of so many examples goes to dev and to test."""
    usual = min(LARGEST_SHARE, MOST_EXAMPLES / max(1, total))
    usual_dev, usual_test = (spec.task != "none" and TASKS[spec.task].shares) or (usual, usual)
    dev = 0.0 if spec.dev is not None else usual_dev if spec.dev_share is None else spec.dev_share
    # whoever brings a dev file and no test file keeps the test elsewhere
    brought = spec.test is not None or (spec.dev is not None and spec.test_share is None)
    return dev, 0.0 if brought else usual_test if spec.test_share is None else spec.test_share


def _held_out(spool: Spool, format: Format[E], shares: Shares) -> dict[str, list[E]]:
    """The examples that are not trained on."""
    found: dict[str, list[E]] = {"dev": [], "test": []}
    for block in spool:
        parts = _parts(block.places, shares)
        for name, part in (("dev", _DEV), ("test", _TEST)):
            if (parts == part).any():
                found[name] += format.examples(_chosen(block, parts == part))
    return found


def _chosen(block: SpooledBlock, rows: NDArray[np.bool_]) -> Block:
    """Those examples of a block that are wanted."""
    wanted = rows.tolist()
    if all(wanted):
        return Block(block.lines.tolist(), tuple(block.columns()))
    columns = tuple(list(compress(texts, wanted)) for texts in block.columns())
    return Block(block.lines[rows].tolist(), columns)


class _FewValues:
    """Watches the sides of pairs for one that has only a few values: it may be a label."""

    def __init__(self, format: Format[Any]) -> None:
        self._format = format
        self._seen: dict[str, set[str]] = {side: set() for side in format.columns} if format.parallel else {}

    def watch(self, block: SpooledBlock) -> None:
        """Look at some examples."""
        for side, values in self._seen.items():
            if len(values) <= MOST_LABELS:
                values.update(block.column(self._format.columns.index(side)))

    def hint(self, where: Where | None, total: int, layout: Layout | None) -> list[str]:
        """What to type if a column of a file holds labels."""
        if not isinstance(where, str) or layout is None or total < 20:
            return []
        hints = []
        for number, (side, values) in enumerate(self._seen.items()):
            if len(values) <= MOST_LABELS and len(values) * 10 <= total:
                some = ", ".join(sorted(values)[:3])
                order = f" --columns {_reversed(layout)}" if number else ""
                hints.append(
                    f"{shown(where)}: the {total:,} pairs have only {len(values)} different {side}s ({some[:60]} …): "
                    f"if these are labels, add model.family=classifier{order}"
                )
        return hints


def _reversed(layout: Layout) -> str:
    """Both columns, the second one first, as a command names them."""
    named = layout.header or layout.kind == "jsonl"
    return ",".join(reversed(layout.fields if named else [str(place + 1) for place in layout.places]))
