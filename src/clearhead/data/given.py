"""Examples that a Python program has in memory, written to one file: everything downstream, an exact resume above all,
works on files.

The same rows always give the same bytes. Line breaks and tabs inside a text become spaces, as in CSV: an example is one
line.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from clearhead.data.layout import numbered, one_line
from clearhead.data.tables import ACCEPTED, Table, brief, is_missing, is_whole, kind_of_value, table_of
from clearhead.errors import DataError
from clearhead.files import whole_file

GIVEN = "given-"
"""How the names of such files begin."""


def write_given(
    data: Any, folder: Path, part: str = "train", *, columns: Sequence[str] | None = None, keep: bool = False
) -> Path:
    """Write examples to a JSONL file in ``folder``, whole or not at all, and return its path.

    Args:
        data: The rows: any iterable of (source, target) or (label, text) tuples, of texts or of dicts; or a table: a
            pandas DataFrame, a pyarrow Table, a Hugging Face ``datasets.Dataset``. Labels may be whole numbers.
        folder: Where the file goes; it is made if it is not there.
        part: ``train``, ``dev``, ``test`` or ``more``: part of the file's name.
        columns: The columns of dicts or of a table that are meant, in the order of the model's. Without it those with
            usual names are found: source and target, label and text, text. The file has the same names; tuples without
            any become JSON lists.
        keep: Refuse rows that differ from those of a file that is there already, and leave that as it is.
    """
    name = "data" if part in ("train", "data") else part
    lines = _lines(table_of(data, name, _chosen(columns, name)), name)
    first = next(lines, None)
    if first is None:
        again = " (a generator can be gone over only once)" if isinstance(data, Iterator) else ""
        raise DataError(f"{name}: is empty{again}: {ACCEPTED}")
    lines = chain([first], lines)
    path = folder / f"{GIVEN}{part}.jsonl"
    if keep and path.is_file():
        _require_same(lines, path, name)
        return path
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with whole_file(path) as stream:
            stream.writelines(lines)
    except BaseException:
        if made:
            with suppress(OSError):
                folder.rmdir()
        raise
    return path


def _chosen(columns: Sequence[str] | None, name: str) -> tuple[str, ...] | None:
    """The columns that are asked for, if they can be."""
    if columns is None:
        return None
    if isinstance(columns, str) or not all(isinstance(column, str) for column in columns):
        raise TypeError('columns is a list of names: columns=["english", "german"]')
    asked = tuple(columns)
    if not 1 <= len(asked) <= 2 or len(set(asked)) < len(asked):
        raise DataError(f"columns: {', '.join(asked) or 'none'}: name one for lines of text, two for pairs or labels")
    if numbered(asked):
        raise DataError(f"columns: {', '.join(asked)}: columns of {name} go by name, numbers are for files without any")
    return asked


def _lines(table: Table, name: str) -> Iterator[bytes]:
    """Each row as JSON: an object if its columns have names, else a list."""
    for index, row in enumerate(table.rows):
        if table.columns is not None and len(row) != len(table.columns):
            raise DataError(f"columns: {', '.join(table.columns)}: {name}[{index}] has {len(row)} values")
        values = [
            _text(value) if isinstance(value, str) else _number(value, table, name, index, place)
            for place, value in enumerate(row)
        ]
        content = values if table.columns is None else dict(zip(table.columns, values, strict=True))
        try:
            yield f"{json.dumps(content, ensure_ascii=False)}\n".encode()
        except UnicodeEncodeError:
            raise DataError(f"{name}[{index}]: has an unpaired surrogate, which is no text: {brief(row)}") from None


def _text(value: str) -> str:
    return one_line(value.replace("\r\n", "\n"))


def _number(value: Any, table: Table, name: str, index: int, place: int) -> str | int:
    """What is no text: the number of a class, or an error that says where it stands and what to do."""
    where = table.place(name, index, place)
    if is_missing(value):
        raise DataError(f"{where}: is missing ({value}): leave such rows out first (pandas: data.dropna())")
    if place in table.labels:
        if isinstance(value, bool | np.bool_):
            return str(bool(value))
        if is_whole(value):
            return int(value)
    what = f"{where}: is {kind_of_value(value)}, {brief(value)}, not a text"
    if isinstance(value, Mapping):
        raise TypeError(f"{what}: pass its texts as tuples: [(row[…][…], row[…][…]) for row in {name}]")
    raise TypeError(f"{what}: {'decode it' if isinstance(value, bytes) else 'convert it with str(), or leave it out'}")


def _require_same(lines: Iterable[bytes], path: Path, name: str) -> None:
    """Refuse rows that are not those of the file."""
    with path.open("rb") as stream:
        for index, (new, old) in enumerate(zip_longest(lines, stream)):
            if new != old:
                raise DataError(
                    f"{name}[{index}]: is not what the run in {path.parent.parent} was given before: give the same "
                    f"data, or choose another folder (if {path.name} is damaged: move it away first)"
                )
