"""Lines to answer: from files, or as they arrive through a pipe, in jobs for workers."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from clearhead.data import arriving_lines, decoded, is_json, read_lines
from clearhead.errors import DataError
from clearhead.files import exists

ReadAs = Literal["auto", "text", "jsonl"]
"""What lines are: text, or JSON objects; auto goes by the name of the file."""
WINDOW, CHUNK = 4096, 256
"""Lines that are sorted by length together, and lines that a worker answers at a time."""
STDIN = Path("-")
"""How standard input is named among files."""


@dataclass(frozen=True)
class Line:
    """One line to answer."""

    number: int
    """Over all files, from 0."""
    where: str
    """File and line, for messages."""
    source: str
    fields: dict[str, Any] | None = None
    """The other fields of a JSONL line."""


def lines_to_answer(files: Sequence[Path], read_as: ReadAs, field: str) -> Iterator[Line | None]:
    """The lines of all files, or of standard input as they arrive, with None where one would have to wait.

    ``-`` among the files is standard input, and so is no file at all. ``field`` is the field of a JSON object that
    holds the text.
    """
    number = 0
    for file in files or [STDIN]:
        name = "standard input" if file == STDIN else str(file)
        wanted = field if read_as == "jsonl" or (read_as == "auto" and is_json(file)) else None
        place = 0
        for text in _arriving(name) if file == STDIN else read_lines(file):
            if text is None:
                yield None
                continue
            place += 1
            yield _line(text, number, f"{name}, line {place}", wanted)
            number += 1


def require_files(files: Sequence[Path]) -> None:
    """Refuse what cannot be read as a file, before a model is loaded for it."""
    for file in files:
        if file == STDIN:
            continue
        if not exists(file):
            raise DataError(f"{file}: no such file")
        if file.is_dir():
            raise DataError(f"{file}: is a folder; name a file of lines")


def count_lines(files: Sequence[Path]) -> int | None:
    """How many lines there are to answer; None if that cannot be told before they are read."""
    if not files or not all(file.is_file() for file in files):
        return None
    return sum(1 for file in files for _ in read_lines(file))


def _arriving(name: str) -> Iterator[str | None]:
    """The lines of standard input as text, and None where one would have to wait."""
    number = 0
    for raw in arriving_lines(sys.stdin.fileno(), name):
        if raw is None:
            yield None
            continue
        number += 1
        yield decoded(raw, name, number)


def _line(text: str, number: int, where: str, field: str | None) -> Line:
    """A line as it is, or the field of that name of the JSON object that it holds."""
    if field is None:
        return Line(number, where, text)
    try:
        table = json.loads(text)
    except (ValueError, RecursionError):
        raise DataError(f"{where}: not JSON") from None
    source = table.pop(field, None) if isinstance(table, dict) else None
    if not isinstance(source, str):
        raise DataError(f'{where}: no text "{field}"')
    if any("\ud800" <= character <= "\udfff" for character in source):
        raise DataError(f"{where}: an unpaired surrogate, which is no text")
    return Line(number, where, source, table)


def jobs_of(lines: Iterable[Line | None]) -> Iterator[list[Line] | None]:
    """Jobs of lines of a similar length; what has arrived is passed on before waiting for more."""
    window: list[Line] = []
    for line in lines:
        if line is not None:
            window.append(line)
        if line is None or len(window) == WINDOW:
            yield from _chunks(window)
            window = []
        if line is None:
            yield None
    yield from _chunks(window)


def _chunks(window: list[Line]) -> Iterator[list[Line]]:
    ordered = sorted(window, key=lambda line: len(line.source))
    for start in range(0, len(ordered), CHUNK):
        yield ordered[start : start + CHUNK]
