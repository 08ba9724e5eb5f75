"""Reads the lines to answer, from files or from a pipe as they arrive, and groups them into jobs for workers."""

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
"""The format of lines: text or JSON objects; ``auto`` goes by the file name."""
WINDOW, CHUNK = 4096, 256
"""Lines sorted by length together, and lines per job."""
STDIN = Path("-")
"""The file name that stands for standard input."""


@dataclass(frozen=True)
class Line:
    """One line to answer."""

    number: int
    """Counted over all files, from 0."""
    where: str
    """File and line, for messages."""
    source: str
    fields: dict[str, Any] | None = None
    """The other fields of a JSONL line."""


def lines_to_answer(files: Sequence[Path], read_as: ReadAs, field: str) -> Iterator[Line | None]:
    """Yield the lines of all files; from a pipe, also None whenever the next line has not arrived yet.

    Standard input is read for ``-``, or if there are no files. ``field`` is the field of a JSON object that holds the
    text.
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
    """Refuse files that do not exist or are folders, before a model is loaded."""
    for file in files:
        if file == STDIN:
            continue
        if not exists(file):
            raise DataError(f"{file}: no such file")
        if file.is_dir():
            raise DataError(f"{file}: is a folder; name a file of lines")


def count_lines(files: Sequence[Path]) -> int | None:
    """Count the lines to answer; None if a pipe is among the files."""
    if not files or not all(file.is_file() for file in files):
        return None
    return sum(1 for file in files for _ in read_lines(file))


def _arriving(name: str) -> Iterator[str | None]:
    """Yield the lines of standard input as text, and None whenever the next line has not arrived yet."""
    number = 0
    for raw in arriving_lines(sys.stdin.fileno(), name):
        if raw is None:
            yield None
            continue
        number += 1
        yield decoded(raw, name, number)


def _line(text: str, number: int, where: str, field: str | None) -> Line:
    """Make a ``Line`` from the text, or from one field of the JSON object that the text holds."""
    if field is None:
        return Line(number, where, text)
    try:
        table = json.loads(text)
    except (ValueError, RecursionError):
        raise DataError(f"{where}: not JSON") from None
    source = table.pop(field, None) if isinstance(table, dict) else None
    if not isinstance(source, str):
        raise DataError(f'{where}: has no text in the field "{field}"')
    if any("\ud800" <= character <= "\udfff" for character in source):
        raise DataError(f"{where}: contains an unpaired surrogate, which is not a character")
    return Line(number, where, source, table)


def jobs_of(lines: Iterable[Line | None]) -> Iterator[list[Line] | None]:
    """Group lines of similar length into jobs; lines that have arrived are passed on before waiting for more."""
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
