"""How examples stand in files: TSV, JSONL, lines, or two parallel files. Nothing is dropped silently."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from clearhead.data.examples import Labelled, Pair, Picture, Text
from clearhead.data.lines import read_lines
from clearhead.data.pictures import pixels_of
from clearhead.errors import ClearheadError, DataError
from clearhead.recipe import Encoder, ModelSpec, Patches

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
        raise DataError("\n".join([*lines, "mend these lines, or leave them out with data.bad_lines=skip"]))


@dataclass(frozen=True)
class Format(Generic[E]):
    """The columns of one kind of examples: between tabs, as fields of JSON objects, or one in each of two files."""

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

    @property
    def parallel(self) -> bool:
        """Whether the columns may stand in files of their own: where each is a text."""
        return len(self.texts) == 2

    def scan(self, where: Where) -> Iterator[E | BadLine]:
        """Everything that stands in the files, line by line: examples, and lines that are none."""
        for file, line, found in self._rows(where):
            if isinstance(found, str):
                yield BadLine(file, line, found)
            elif empty := [name for name, text in zip(self.columns, found, strict=True) if not text.strip()]:
                yield BadLine(file, line, f"empty {empty[0]}")
            else:
                example = self.make(*(text.strip() for text in found), line=line)
                problem = self.problem(example)
                yield example if problem is None else BadLine(file, line, problem)

    def read(self, where: Where, bad_lines: Literal["refuse", "skip"] = "refuse") -> tuple[list[E], Skipped]:
        """All examples in memory. Bad lines are refused with their numbers, or left out and counted."""
        skipped = Skipped()
        examples = list(self.good(where, skipped))
        if bad_lines == "refuse":
            skipped.refuse()
        if not examples:
            raise DataError(f"{shown(where)}: no {self.name} inside")
        return examples, skipped

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
        elif is_json(where):
            for number, text in enumerate(read_lines(where), start=1):
                yield where, number, self._fields(text)
        else:
            for number, text in enumerate(read_lines(where), start=1):
                yield where, number, self._split(text)

    def _split(self, text: str) -> Sequence[str] | str:
        if not text.strip():
            return "empty line"
        columns = [text] if len(self.columns) == 1 else text.split("\t")
        if len(columns) == len(self.columns):
            return columns
        return f"{len(columns)} columns between tabs instead of {len(self.columns)}"

    def _fields(self, text: str) -> Sequence[str] | str:
        try:
            table = json.loads(text)
        except (ValueError, RecursionError):
            return "not JSON"
        values = [table.get(name) if isinstance(table, dict) else None for name in self.columns]
        fields = [value for value in values if isinstance(value, str)]
        if len(fields) < len(values):
            names = " and ".join(f'"{name}"' for name in self.columns)
            return f"no text{'s' if len(self.columns) > 1 else ''} {names}"
        if any("\ud800" <= character <= "\udfff" for field in fields for character in field):
            return "an unpaired surrogate, which is no text"
        return fields


def _misfit(picture: Picture, patches: Patches) -> str | None:
    try:
        pixels_of(picture.pixels, patches)
    except DataError as error:
        return str(error)
    return None


def is_json(file: str | Path) -> bool:
    """Whether a file holds JSON objects, by its name."""
    return Path(str(file).removesuffix(".gz")).suffix in (".jsonl", ".json")


def shown(where: Where) -> str:
    """The files, as a message names them."""
    return where if isinstance(where, str) else " and ".join(where)


def _parallel(source: str, target: str) -> Iterator[tuple[str, int, Sequence[str]]]:
    counts = [0, 0]
    for number, (left, right) in enumerate(zip_longest(read_lines(source), read_lines(target)), start=1):
        counts[0] += left is not None
        counts[1] += right is not None
        if left is not None and right is not None:
            yield target if left.strip() and not right.strip() else source, number, (left, right)
    if counts[0] != counts[1]:
        raise DataError(
            f"{source} has {counts[0]:,} lines, {target} has {counts[1]:,}: parallel files must have as many lines"
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
    if isinstance(spec, Encoder) and spec.patches is not None and spec.learns == "pictures":
        return replace(PICTURES, problem=partial(_misfit, patches=spec.patches))
    if spec.learns not in _FORMATS:
        raise ClearheadError(f"a model of family {spec.family} learns from {spec.learns}, which no file can hold yet")
    return _FORMATS[spec.learns]
