"""What the lines of a file are: CSV, columns between tabs, JSON objects or plain text, and which columns are meant.

A file is known by its name, and where that says nothing by its first line. Its columns are those that were asked for,
by name or by number; else those that a header, or the fields of its first JSON object, name; else the first ones.
"""

import csv
import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from clearhead.data.inputs import shown_input
from clearhead.data.lines import read_lines
from clearhead.errors import DataError, did_you_mean

Kind = Literal["csv", "tsv", "jsonl", "lines", "table"]
ALIASES = {
    "source": ("source", "src", "input", "question", "from"),
    "target": ("target", "tgt", "trg", "output", "answer", "to"),
    "text": ("text", "sentence", "review", "document", "content", "line"),
    "label": ("label", "class", "category", "tag", "sentiment"),
    "pixels": ("pixels", "image", "picture", "text"),
}
"""What headers and JSON objects call the columns; case does not matter."""
BETWEEN = {",": "commas", ";": "semicolons", "\t": "tabs"}
HEAD = 20
"""Lines that a file is judged by."""


@dataclass(frozen=True)
class Layout:
    """How to get the columns of an example out of a line."""

    kind: Kind
    delimiter: str
    """Between the columns of CSV and TSV."""
    width: int | None
    """Columns that a line must have; None if any number will do that reaches far enough."""
    places: tuple[int, ...]
    """Where the columns of an example stand, from 0; JSON objects have none, JSON lists do."""
    fields: tuple[str, ...]
    """What the columns of an example are called, in JSON objects or in the header."""
    header: tuple[str, ...] = ()
    """The names of all columns, if the first line is taken as a header."""
    note: str = ""
    """What was decided that a reader of the file might not expect."""
    broken: str = ""
    """Why no line of the file can be read, if so."""


def is_json(file: str | Path) -> bool:
    """Whether a file holds JSON objects, by its name."""
    return _suffix(file) in (".jsonl", ".json")


def kind_of(file: str | Path, first: str) -> Kind:
    """What the lines of a file are, by its name, or else by the first of them."""
    if is_json(file):
        return "jsonl"
    if _suffix(file) in (".csv", ".tsv"):
        return "csv" if _suffix(file) == ".csv" else "tsv"
    if _suffix(file) == "" and "\t" not in first:
        if first.lstrip().startswith("{"):
            return "jsonl"
        if any(named_columns(_cells(first, mark) or (), names) for mark in ",;" for names in _USUAL):
            return "csv"
    return "tsv" if "\t" in first else "lines"


def layout_of(file: str, columns: tuple[str, ...], asked: Sequence[str] | None = None) -> Layout:
    """How the examples with these columns stand in a file; ``asked`` are names or numbers of the columns to take."""
    return layout_by(list(islice(read_lines(file), HEAD)), file, columns, asked)


def layout_by(head: Sequence[str], file: str, columns: tuple[str, ...], asked: Sequence[str] | None = None) -> Layout:
    """The same from the first lines of the file, for those who have read them: ``HEAD`` of them, or all there are."""
    first = head[0] if head else ""
    kind = kind_of(file, first)
    if len(head) == 1 and "\r" in first:
        convert = f"tr '\\r' '\\n' < {shlex.quote(file)} > NEW"
        broken = f"lines that end with CR alone, as on old Macs: convert them: {convert}"
        return Layout(kind, "\t", None, (), columns, broken=broken)
    if kind == "jsonl":
        return _json_layout(file, first, columns, asked)
    if len(columns) == 1 and not asked and kind != "csv":
        return Layout("lines", "", 1, (0,), columns)
    delimiter = _delimiter(head, len(columns)) if kind == "csv" else "\t"
    kind = "csv" if kind == "csv" else "tsv"
    names = _cells(first, delimiter) or ()
    if asked and numbered(asked):
        places = tuple(int(number) - 1 for number in asked)
        return Layout(kind, delimiter, None, places, columns, note=_note(file, "", names, places))
    if asked:
        places = _asked_places(file, asked, names)
    elif (found := named_columns(names, columns)) is not None:
        places = found
    else:
        return Layout(kind, delimiter, len(columns), tuple(range(len(columns))), columns)
    fields = tuple(names[place] for place in places)
    header = f"line 1 is taken as a header ({', '.join(names)}); "
    return Layout(kind, delimiter, len(names), places, fields, names, _note(file, header, names, places))


def named_columns(names: Sequence[str], columns: Sequence[str]) -> tuple[int, ...] | None:
    """Where a header names these columns, by their own names or by usual ones; None unless it names each just once."""
    lower = [name.strip().lower() for name in names]
    if len(set(lower)) < len(lower):
        return None
    places = []
    for column in columns:
        own = [place for place, name in enumerate(lower) if name == column]
        found = own or [place for place, name in enumerate(lower) if name in ALIASES.get(column, ())]
        if len(found) != 1:
            return None
        places += found
    return tuple(places) if len(set(places)) == len(places) else None


def named_family(file: str) -> str | None:
    """The family that the header of a file, or its first JSON object, speaks for; None for pairs, or if it has no say.

    A label and a text are for a classifier, a text alone for a language model.
    """
    first = next(read_lines(file), "")
    kind = kind_of(file, first)
    if kind == "jsonl":
        names: Sequence[str] = list(object_of(first) or ())
    elif kind in ("csv", "tsv"):
        names = _cells(first, "\t" if kind == "tsv" else _delimiter([first], 2)) or ()
    else:
        return None
    return family_of_columns(names)


def family_of_columns(names: Sequence[str]) -> str | None:
    """The family that columns of these names speak for; None for pairs, or if they have no say."""
    if named_columns(names, ("source", "target")) is not None:
        return None
    if named_columns(names, ("label", "text")) is not None:
        return "classifier"
    return "lm" if named_columns(names, ("text",)) is not None else None


def numbered(asked: Sequence[str]) -> bool:
    """Whether columns are asked for by number, from 1: then no line is taken as a header."""
    return all(word.isascii() and word.isdigit() for word in asked)


def csv_records(lines: Iterator[str], delimiter: str) -> Iterator[tuple[int, list[str] | str]]:
    """The first line and the cells of every record, or what is wrong with it; a quoted cell may go over several lines.

    Line breaks and tabs inside a cell become spaces: an example is one line.
    """
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter, strict=True)
    while True:
        start = reader.line_num + 1
        try:
            yield start, [one_line(cell) for cell in next(reader)]
        except StopIteration:
            return
        except csv.Error as error:
            over = f", over lines {start} to {reader.line_num}" if reader.line_num > start else ""
            yield start, f"quotes that do not fit ({error}{over})"


def one_line(cell: str) -> str:
    """A text without line breaks and tabs inside: spaces stand there instead."""
    if "\n" in cell or "\r" in cell or "\t" in cell:
        return " ".join(part.strip() for part in cell.replace("\r", "\n").replace("\t", "\n").split("\n")).strip()
    return cell


def _suffix(file: str | Path) -> str:
    return Path(str(file).removesuffix(".gz")).suffix.lower()


_USUAL = (("source", "target"), ("label", "text"), ("text",))


def _cells(line: str, delimiter: str) -> tuple[str, ...] | None:
    """The cells of one line, without spaces around them; None if its quotes do not fit."""
    if delimiter == "\t":
        return tuple(cell.strip() for cell in line.split("\t"))
    try:
        return tuple(cell.strip() for cell in next(csv.reader([line], delimiter=delimiter, strict=True), []))
    except csv.Error:
        return None


def _delimiter(head: Sequence[str], columns: int) -> str:
    """What stands between the columns: what gives the right number of them most often, or else the most columns."""

    def fit(mark: str) -> tuple[int, int]:
        rows = [found for _, found in csv_records(iter(head), mark) if isinstance(found, list)]
        return sum(len(row) == columns for row in rows if columns > 1), sum(map(len, rows))

    return max(BETWEEN, key=fit)


def _asked_places(file: str, asked: Sequence[str], names: Sequence[str]) -> tuple[int, ...]:
    lower = [name.lower() for name in names]
    missing = [name for name in asked if name.lower() not in lower]
    if missing:
        near = did_you_mean(missing[0], list(names))
        raise DataError(
            f"{shown_input(file)}: its header has no column {missing[0]}{near}: line 1 is {', '.join(names)[:200]!r}; "
            "a file without a header takes numbers: --columns 1,2"
        )
    return tuple(lower.index(name.lower()) for name in asked)


def _json_layout(file: str, first: str, columns: tuple[str, ...], asked: Sequence[str] | None) -> Layout:
    if list_of(first) is not None:
        if asked and not numbered(asked):
            raise DataError(f"{shown_input(file)}: JSON lists have no names: --columns 1,2")
        numbers = [int(number) - 1 for number in asked] if asked else range(len(columns))
        return Layout("jsonl", "", None if asked else len(columns), tuple(numbers), columns)
    if asked:
        if numbered(asked):
            raise DataError(f"{shown_input(file)}: JSON objects have names, not numbers: --columns source,target")
        fields = tuple(asked)
        return Layout("jsonl", "", None, (), fields, note=_fields_note(file, fields, columns))
    names = list(object_of(first) or ())
    found = named_columns(names, columns)
    fields = columns if found is None else tuple(names[place] for place in found)
    return Layout("jsonl", "", None, (), fields, note=_fields_note(file, fields, columns))


def object_of(line: str) -> dict[str, Any] | None:
    """The JSON object of a line, or None."""
    found = _json(line)
    return found if isinstance(found, dict) else None


def list_of(line: str) -> list[Any] | None:
    """The values of a line that is a JSON list of texts and numbers, or None."""
    found = _json(line)
    return found if isinstance(found, list) and found and not any(isinstance(v, list | dict) for v in found) else None


def _json(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _fields_note(file: str, fields: tuple[str, ...], columns: tuple[str, ...]) -> str:
    if fields == columns:
        return ""
    return f"{shown_input(file)}: the fields {_taken(fields, columns)} are taken"


def _note(file: str, header: str, names: Sequence[str], places: tuple[int, ...]) -> str:
    if not header and places == tuple(range(len(names))):
        return ""
    left = len(names) - len(places)
    taken = " and ".join(names[place] if header else str(place + 1) for place in places)
    rest = f", {left} {'others are' if left > 1 else 'other is'} not read" if left > 0 else ""
    return f"{shown_input(file)}: {header}column{'s' * (len(places) > 1)} {taken}{rest}"


def _taken(fields: tuple[str, ...], columns: tuple[str, ...]) -> str:
    return " and ".join(f"{field} ({column})" for field, column in zip(fields, columns, strict=True))
