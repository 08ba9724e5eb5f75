"""How examples stand in files: CSV, TSV, JSONL, lines, or two parallel files. Nothing is dropped silently."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, Literal, TypeVar

from clearhead.data.examples import Example, Labelled, Pair, Picture, Text
from clearhead.data.explain import explained
from clearhead.data.inputs import shown_input
from clearhead.data.layout import Layout, layout_of, object_of
from clearhead.data.lines import Watch, first_line
from clearhead.data.pictures import pixels_of
from clearhead.data.rows import OneFile, Row, TwoFiles
from clearhead.data.skipped import BadLine, Skipped
from clearhead.errors import ClearheadError, DataError
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
        """How the examples stand in this file."""
        return layout_of(file, self.columns, self.take)

    def fits(self, file: str) -> bool:
        """Whether a file has the columns that are meant."""
        try:
            layout = self.layout(file)
        except DataError:
            return False
        if layout.kind != "jsonl" or layout.places:
            return True
        return set(layout.fields) <= set(object_of(first_line(file) or "") or ())

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
        return explained(file, self.columns)


class Scan(Generic[E]):
    """One pass over a file, or over two parallel ones, in which each is opened once and every line parsed once.

    ``watching``, given the name of a file, returns what is shown its bytes.
    """

    def __init__(self, format: Format[E], where: Where, watching: Callable[[str], Watch] | None = None) -> None:
        self._format = format
        self.layout: Layout | None = None
        """How the examples stand in the file; parallel files have none."""
        self._rows: OneFile | TwoFiles
        if isinstance(where, str):
            self._rows = OneFile(where, format.columns, format.take, watching and watching(where))
            self.layout = self._rows.layout
        elif format.parallel:
            self._rows = TwoFiles(where, format.columns, [watching and watching(file) for file in where])
        else:
            raise DataError(f"{shown(where)}: {format.name} stand in one file, not in two")

    @property
    def notes(self) -> list[str]:
        """What was decided about the layout that the reader should know."""
        return noted(self.layout)

    def blocks(self) -> Iterator[tuple[Block, list[BadLine]]]:
        """The examples in blocks, each with the lines among them that are none."""
        lines: list[int] = []
        texts: list[Sequence[str]] = []
        bad: list[BadLine] = []
        size = 0
        for row in self._rows:
            problem = row.found if isinstance(row.found, str) else self._problem(row)
            if problem is not None:
                bad.append(BadLine(shown_input(row.file), row.line, problem))
            else:
                lines.append(row.line)
                texts.append(row.found)
                size += sum(map(len, row.found))
            if size >= _CHARACTERS or len(lines) + len(bad) >= _EXAMPLES:
                yield self._block(lines, texts), bad
                lines, texts, bad, size = [], [], [], 0
        yield self._block(lines, texts), bad

    def _problem(self, row: Row) -> str | None:
        problem = self._format.problem
        return None if problem is None else problem(self._format.make(*row.found, line=row.line))

    def _block(self, lines: list[int], texts: list[Sequence[str]]) -> Block:
        columns = tuple(zip(*texts, strict=True)) or ((),) * len(self._format.columns)
        return Block(lines, columns)


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
