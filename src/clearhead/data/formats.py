"""How examples stand in files: CSV, TSV, JSONL, lines, or two parallel files. Nothing is dropped silently."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import Any, Generic, Literal, TypeVar

from clearhead.data.examples import Labelled, Pair, Picture, Text
from clearhead.data.explain import explained
from clearhead.data.inputs import shown_input
from clearhead.data.layout import BETWEEN, Layout, csv_records, layout_of, object_of
from clearhead.data.lines import first_line, read_lines
from clearhead.data.pictures import pixels_of
from clearhead.errors import ClearheadError, DataError
from clearhead.recipe import EncoderModelSpec, ModelSpec, PatchesSpec

Where = str | Sequence[str]
"""One file, or two parallel files."""
E = TypeVar("E")


@dataclass(frozen=True)
class BadLine:
    """A line that is no example."""

    file: str
    line: int
    problem: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.problem}"


class Skipped:
    """The lines that were left out, and why: counted all, the first ones kept to be shown."""

    def __init__(self, shown: int = 10) -> None:
        self.counts: Counter[str] = Counter()
        self.first: list[BadLine] = []
        self._shown = shown

    def add(self, bad: BadLine) -> None:
        """Count one more."""
        self.counts[bad.problem] += 1
        if len(self.first) < self._shown:
            self.first.append(bad)

    def add_all(self, others: "Skipped") -> None:
        """Count those of another file too."""
        self.counts += others.counts
        self.first = (self.first + others.first)[: self._shown]

    def __len__(self) -> int:
        return self.counts.total()

    def __str__(self) -> str:
        reasons = ", ".join(f"{count:,} × {problem}" for problem, count in self.counts.most_common())
        return f"{len(self):,} lines left out ({reasons}); the first is {self.first[0]}" if self.first else ""

    def refuse(self) -> None:
        """Raise an error that names the lines, if there are any."""
        if not self.first:
            return
        lines = [str(bad) for bad in self.first]
        if len(self) > len(lines):
            lines.append(f"… and {len(self) - len(lines):,} more")
        raise DataError("\n".join([*lines, "fix these lines, or leave them out with data.bad_lines=skip"]))


@dataclass(frozen=True)
class Format(Generic[E]):
    """The columns of one kind of examples: in CSV or TSV, as fields of JSON objects, or one in each of two files."""

    name: str
    """What messages call several of them."""
    columns: tuple[str, ...]
    make: Callable[..., E]
    """An example from its columns, and ``line``."""
    question: str
    """The column that a model answers."""
    texts: tuple[str, ...]
    """The columns that become tokens."""
    problem: Callable[[E], str | None] = lambda _: None
    """What is wrong with an example, if something is."""
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
        return layout.kind != "jsonl" or set(layout.fields) <= set(object_of(first_line(file) or "") or ())

    def notes(self, where: Where | None) -> list[str]:
        """What is decided about the layout of these files that their reader should know."""
        return [note for note in (self.layout(where).note,) if note] if isinstance(where, str) else []

    def scan(self, where: Where) -> Iterator[E | BadLine]:
        """Everything that stands in the files, line by line: examples, and lines that are none."""
        for file, line, found in self._rows(where):
            if isinstance(found, str):
                yield BadLine(shown_input(file), line, found)
            elif empty := [name for name, text in zip(self.columns, found, strict=True) if not text.strip()]:
                yield BadLine(shown_input(file), line, f"empty {empty[0]}")
            elif any("\0" in text for text in found):
                yield BadLine(shown_input(file), line, "a NUL byte, which no text has")
            else:
                example = self.make(*(text.strip() for text in found), line=line)
                problem = self.problem(example)
                yield example if problem is None else BadLine(shown_input(file), line, problem)

    def read(self, where: Where, bad_lines: Literal["refuse", "skip"] = "refuse") -> tuple[list[E], Skipped]:
        """All examples in memory. Bad lines are refused with their numbers, or left out and counted."""
        skipped = Skipped()
        examples = list(self.good(where, skipped))
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

    def good(self, where: Where, skipped: Skipped) -> Iterator[E]:
        """The examples one by one; lines that are none go to ``skipped``."""
        for item in self.scan(where):
            if isinstance(item, BadLine):
                skipped.add(item)
            else:
                yield item

    def _rows(self, where: Where) -> Iterator[tuple[str, int, Sequence[str] | str]]:
        """File, line and columns of every line; instead of the columns a problem, if there is one."""
        if not isinstance(where, str):
            if not self.parallel:
                raise DataError(f"{shown(where)}: {self.name} stand in one file, not in two")
            yield from _parallel(*where)
            return
        layout = self.layout(where)
        if layout.broken:
            yield where, 1, layout.broken
            return
        records: Iterator[tuple[int, list[str] | str]]
        if layout.kind == "csv":
            records = csv_records(read_lines(where), layout.delimiter)
        else:
            records = enumerate(read_lines(where), start=1)
        for number, record in records:
            if number == 1 and layout.header:
                continue
            yield where, number, self._columns(layout, record)

    def _columns(self, layout: Layout, record: list[str] | str) -> Sequence[str] | str:
        """The columns of an example from a line or a CSV record, or what is wrong with it."""
        if layout.kind == "jsonl" and isinstance(record, str):
            return self._fields(layout, record)
        if layout.kind == "csv":
            return record if isinstance(record, str) else _chosen(layout, record)
        text = str(record)
        if not text.strip():
            return "empty line"
        return [text] if layout.kind == "lines" else _chosen(layout, text.split("\t"))

    def _fields(self, layout: Layout, text: str) -> Sequence[str] | str:
        try:
            table = json.loads(text)
        except (ValueError, RecursionError):
            return "not JSON"
        table = table if isinstance(table, dict) else {}
        values = [table.get(field) for field in layout.fields]
        fields = [value for value in values if isinstance(value, str)]
        if len(fields) < len(values):
            names = " and ".join(f'"{name}"' for name in layout.fields)
            return f"no text{'s' if len(self.columns) > 1 else ''} {names}"
        if any("\ud800" <= character <= "\udfff" for field in fields for character in field):
            return "an unpaired surrogate, which is no text"
        return fields


def _chosen(layout: Layout, cells: Sequence[str]) -> Sequence[str] | str:
    """The cells that are meant, or why they are not there."""
    if not any(cell.strip() for cell in cells) and len(cells) < 2:
        return "empty line"
    between = BETWEEN[layout.delimiter]
    if layout.width is not None and len(cells) != layout.width:
        return f"{len(cells)} columns between {between} instead of {layout.width}"
    if max(layout.places) >= len(cells):
        return f"{len(cells)} columns between {between}, and column {max(layout.places) + 1} is asked for"
    return [cells[place] for place in layout.places]


def _misfit(picture: Picture, patches: PatchesSpec) -> str | None:
    try:
        pixels_of(picture.pixels, patches)
    except DataError as error:
        return str(error)
    return None


def shown(where: Where) -> str:
    """The files, as a message names them."""
    return " and ".join(shown_input(file) for file in ([where] if isinstance(where, str) else where))


def _parallel(source: str, target: str) -> Iterator[tuple[str, int, Sequence[str]]]:
    counts = [0, 0]
    for number, (left, right) in enumerate(zip_longest(read_lines(source), read_lines(target)), start=1):
        counts[0] += left is not None
        counts[1] += right is not None
        if left is not None and right is not None:
            yield target if left.strip() and not right.strip() else source, number, (left, right)
    if counts[0] != counts[1]:
        raise DataError(
            f"{shown_input(source)} has {counts[0]:,} lines, {shown_input(target)} has {counts[1]:,}: "
            "parallel files must have as many lines"
        )


PAIRS = Format("pairs", ("source", "target"), Pair, "source", ("source", "target"))
TEXTS = Format("lines of text", ("text",), Text, "text", ("text",))
LABELS = Format("labelled texts", ("label", "text"), Labelled, "text", ("text",))
PICTURES = Format("labelled pictures", ("label", "pixels"), Picture, "pixels", ())
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
