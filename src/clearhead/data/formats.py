"""How examples stand in files: CSV, TSV, JSONL, lines, or two parallel files. Nothing is dropped silently."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Generic, Literal, TypeVar

from clearhead.data.examples import Example, Labelled, Pair, Picture, Text
from clearhead.data.explain import explained
from clearhead.data.inputs import shown_input
from clearhead.data.layout import Layout, layout_of, object_of
from clearhead.data.lines import RawLines, Watch, first_line
from clearhead.data.parquet import TableFile, is_table
from clearhead.data.pictures import pixels_of
from clearhead.data.rows import LineParser, OneFile, Row, TwoFiles
from clearhead.data.skipped import BadLine, Skipped
from clearhead.errors import ClearheadError, DataError
from clearhead.files import matching
from clearhead.recipe import EncoderModelSpec, ModelSpec, PatchesSpec

Where = str | Sequence[str]
"""One file, or two parallel files."""
E = TypeVar("E", bound=Example)
_EXAMPLES, _CHARACTERS = 10_000, 1 << 20
"""What a block holds, roughly."""


@dataclass(frozen=True)
class Block:
    """Some examples, column by column: far smaller than one object each, and what tokenizers and files take."""

    lines: Sequence[int]
    """Where they stand in their file, counted from 1."""
    columns: tuple[Sequence[str], ...]
    """In the order of ``Format.columns``."""

    def __len__(self) -> int:
        return len(self.lines)


@dataclass(frozen=True)
class Format(Generic[E]):
    """The columns of one kind of examples: in CSV or TSV, as fields of JSON objects, or one in each of two files."""

    name: str
    """What messages call several of them."""
    columns: tuple[str, ...]
    make: Callable[..., E]
    """An example from its columns, and ``line``."""
    question: str
    """The column that a model answers; an example's ``key``, too."""
    texts: tuple[str, ...]
    """The columns that become tokens."""
    problem: Callable[[E], str | None] | None = None
    """What is wrong with an example, if something can be that its columns alone do not show."""
    take: tuple[str, ...] | None = None
    """The columns of a file that are meant, in the order of ``columns``: names of a header or of JSON fields, or
    numbers from 1; None to find them."""

    def selecting(self, columns: Sequence[str] | None) -> "Format[E]":
        """The same format for files in which these columns are meant."""
        return self if columns is None else replace(self, take=tuple(columns))

    @property
    def parallel(self) -> bool:
        """Whether the columns may stand in files of their own: where each is a text."""
        return len(self.texts) == 2

    def layout(self, file: str) -> Layout:
        """How the examples stand in this file, or in the first one that a pattern names."""
        first = files_of(file)[0]
        return (
            TableFile(first, self.columns, self.take).layout
            if is_table(first)
            else layout_of(first, self.columns, self.take)
        )

    def fits(self, file: str) -> bool:
        """Whether a file has the columns that are meant."""
        try:
            layout = self.layout(file)
        except DataError:
            return False
        if layout.kind != "jsonl" or layout.places:
            return True
        return set(layout.fields) <= set(object_of(first_line(files_of(file)[0]) or "") or ())

    def notes(self, where: Where | None) -> list[str]:
        """What is decided about the layout of these files that their reader should know."""
        return noted(self.layout(where)) if isinstance(where, str) else []

    def examples(self, block: Block) -> Iterator[E]:
        """The examples of a block, one by one."""
        return (self.make(*texts, line=line) for line, *texts in zip(block.lines, *block.columns, strict=True))

    def column(self, block: Block, name: str) -> Sequence[str]:
        """The texts of one column."""
        return block.columns[self.columns.index(name)]

    def block(self, examples: Sequence[E]) -> Block:
        """Examples as a block."""
        columns = tuple([getattr(example, name) for example in examples] for name in self.columns)
        return Block([example.line for example in examples], columns)

    def scan(self, where: Where) -> Iterator[E | BadLine]:
        """Everything that stands in the files, line by line: examples, and lines that are none."""
        for block, bad in Scan(self, where).blocks():
            items: list[E | BadLine] = [*self.examples(block), *bad]
            yield from sorted(items, key=lambda item: item.line) if bad else items

    def read(self, where: Where, bad_lines: Literal["refuse", "skip"] = "refuse") -> tuple[list[E], Skipped]:
        """All examples in memory. Bad lines are refused with their numbers, or left out and counted."""
        return self.taken(Scan(self, where), where, bad_lines)

    def taken(self, scan: "Scan[E]", where: Where, bad_lines: Literal["refuse", "skip"]) -> tuple[list[E], Skipped]:
        """The same by a pass that was just begun."""
        examples: list[E] = []
        skipped = Skipped()
        for block, bad in scan.blocks():
            examples += self.examples(block)
            for line in bad:
                skipped.add(line)
        self.refuse_strange(where, len(examples), skipped, bad_lines)
        if not examples:
            raise DataError(f"{shown(where)}: no {self.name} inside")
        return examples, skipped

    def refuse_strange(self, where: Where, found: int, skipped: Skipped, bad_lines: Literal["refuse", "skip"]) -> None:
        """Refuse a file without any example, with what it looks like and what to type; else its bad lines, if asked."""
        if isinstance(where, str) and not found:
            lines = [f"  {bad}" for bad in skipped.first[:3]]
            raise DataError("\n".join([f"{shown(where)}: no {self.name} inside", *lines, self.explain(where)]))
        if bad_lines == "refuse":
            skipped.refuse()

    def explain(self, file: str) -> str:
        """What a file looks like, and what to type."""
        first = files_of(file)[0]
        return "" if is_table(first) else explained(first, self.columns)


@dataclass(frozen=True)
class ScanPart:
    """Some examples of a file on their way: lines that are still to be parsed, or a block that is ready."""

    before: int
    """Lines of the files before this one."""
    lines: RawLines | None = None
    parser: LineParser | None = None
    ready: tuple[Block, list[BadLine]] | None = None


class Scan(Generic[E]):
    """One pass over a file, over two parallel ones, or over all files that a pattern names, one after the other.

    Each is opened once and every line parsed once. ``watching``, given the name of a file, returns what is shown its
    bytes. The lines of several files are counted through.
    """

    def __init__(self, format: Format[E], where: Where, watching: Callable[[str], Watch] | None = None) -> None:
        self.format, self._watching = format, watching
        self.layout: Layout | None = None
        """How the examples stand in the file, or in the first of several; parallel files have none."""
        self._headed: list[str] = []
        """Files after the first that begin with a header, of those that were opened so far."""
        if not isinstance(where, str) and not format.parallel:
            raise DataError(f"{shown(where)}: {format.name} stand in one file, not in two")
        self._files: list[Where] = [*files_of(where)] if isinstance(where, str) else [*_side_by_side(where)]
        self._first = self._opened(self._files[0])
        if not isinstance(self._first, TwoFiles):
            self.layout = self._first.layout

    @property
    def notes(self) -> list[str]:
        """What was decided about the layout that the reader should know; of later files, once they are read."""
        several = [f"{len(self._files)} files, whose lines are counted through"] if len(self._files) > 1 else []
        later = [f"{self._headed[0]}: begins with a header, too"] if self._headed else []
        if len(self._headed) > 1:
            later = [f"{later[0]}, and so do {len(self._headed) - 1} of the files after it"]
        return [*several, *noted(self.layout), *later]

    def blocks(self) -> Iterator[tuple[Block, list[BadLine]]]:
        """The examples in blocks, each with the lines among them that are none."""
        return map(self.parse, self.parts())

    def parts(self) -> Iterator[ScanPart]:
        """The examples, many at once, to be given to ``parse`` one by one, here or in another process.

        Only lines that do not belong together are left to be parsed there; those of CSV and of parallel files do.
        """
        before, rows = 0, self._first
        for number in range(len(self._files)):
            if number:
                rows = self._opened(self._files[number])
                if isinstance(rows, OneFile) and rows.layout.header:
                    self._headed.append(shown(self._files[number]))
            seen = 0
            if isinstance(rows, OneFile) and rows.by_lines:
                for lines in rows.parts:
                    yield ScanPart(before, lines, rows.parser)
                    seen = lines.before + lines.content.count(b"\n") + 1
            else:
                for ready in self._gathered(rows):
                    yield ScanPart(before, ready=ready)
                    seen = max([seen, *ready[0].lines[-1:], *(bad.line for bad in ready[1][-1:])])
            before += seen

    def parse(self, part: ScanPart) -> tuple[Block, list[BadLine]]:
        """The examples of a part; it depends on this part alone."""
        if part.lines is None or part.parser is None:
            assert part.ready is not None
            return _moved(part.ready[0], part.before), part.ready[1]
        parser, first = part.parser, part.lines.before + 1
        lines = list(chain.from_iterable(part.lines.decoded()))
        if first == 1 and parser.layout.header:
            first, lines = 2, lines[1:]
        if self.format.problem is None and (columns := parser.table(lines)) is not None:
            return _moved(Block(range(first, first + len(lines)), tuple(columns)), part.before), []
        ((block, bad),) = self._gathered(parser.rows(enumerate(lines, start=first)), whole=True)
        return _moved(block, part.before), bad

    def _opened(self, file: Where) -> OneFile | TableFile | TwoFiles:
        watching = self._watching
        if not isinstance(file, str):
            return TwoFiles(file, self.format.columns, [watching and watching(side) for side in file])
        watch = None if watching is None else watching(file)
        return (TableFile if is_table(file) else OneFile)(file, self.format.columns, self.format.take, watch)

    def _gathered(self, rows: Iterable[Row], *, whole: bool = False) -> Iterator[tuple[Block, list[BadLine]]]:
        """Rows in blocks that are not too large, or in a single one."""
        lines: list[int] = []
        texts: list[Sequence[str]] = []
        bad: list[BadLine] = []
        size = 0
        for row in rows:
            problem = row.found if isinstance(row.found, str) else self._problem(row)
            if problem is not None:
                bad.append(BadLine(shown_input(row.file), row.line, problem))
            else:
                lines.append(row.line)
                texts.append(row.found)
                size += sum(map(len, row.found))
            if not whole and (size >= _CHARACTERS or len(lines) + len(bad) >= _EXAMPLES):
                yield self._block(lines, texts), bad
                lines, texts, bad, size = [], [], [], 0
        yield self._block(lines, texts), bad

    def _problem(self, row: Row) -> str | None:
        problem = self.format.problem
        return None if problem is None else problem(self.format.make(*row.found, line=row.line))

    def _block(self, lines: list[int], texts: list[Sequence[str]]) -> Block:
        columns = tuple(zip(*texts, strict=True)) or ((),) * len(self.format.columns)
        return Block(lines, columns)


def _moved(block: Block, lines: int) -> Block:
    """A block with its lines counted on from those of earlier files."""
    if not lines:
        return block
    known = block.lines
    if isinstance(known, range):
        return Block(range(known.start + lines, known.stop + lines), block.columns)
    return Block([line + lines for line in known], block.columns)


def files_of(where: str) -> list[str]:
    """The files that a name, or a pattern, stands for."""
    return list(map(str, matching(where))) or [where]


def _side_by_side(sides: Sequence[str]) -> list[list[str]]:
    """Parallel files; the files of two patterns in the order of their names, the first beside the first."""
    left, right = map(files_of, sides)
    if len(left) != len(right):
        raise DataError(f"{sides[0]} names {len(left)} files, and {sides[1]} {len(right)}: each needs its counterpart")
    return [[one, other] for one, other in zip(left, right, strict=True)]


def noted(layout: Layout | None) -> list[str]:
    """What is decided about a file that its reader should know."""
    return [layout.note] if layout is not None and layout.note else []


def _misfit(picture: Picture, patches: PatchesSpec) -> str | None:
    try:
        pixels_of(picture.pixels, patches)
    except DataError as error:
        return str(error)
    return None


def shown(where: Where) -> str:
    """The files, as a message names them."""
    return " and ".join(shown_input(file) for file in ([where] if isinstance(where, str) else where))


PAIRS = Format("pairs", ("source", "target"), Pair, "source", ("source", "target"))
TEXTS = Format("lines of text", ("text",), Text, "text", ("text",))
LABELS = Format("labelled texts", ("label", "text"), Labelled, "text", ("text",))
PICTURES = Format("labelled images", ("label", "pixels"), Picture, "pixels", ())
_FORMATS: dict[str, Format[Any]] = {
    "pairs": PAIRS,
    "texts": TEXTS,
    "gaps": TEXTS,
    "labels": LABELS,
}
"""By what a family learns from (``ModelSpec.learns``)."""


def format_of(spec: ModelSpec) -> Format[Any]:
    """The format of the examples that a model learns from, and is scored on."""
    if isinstance(spec, EncoderModelSpec) and spec.patches is not None and spec.learns == "pictures":
        return replace(PICTURES, problem=partial(_misfit, patches=spec.patches))
    if spec.learns not in _FORMATS:
        raise ClearheadError(f"a model of family {spec.family} learns from {spec.learns}, which no file can hold yet")
    return _FORMATS[spec.learns]
