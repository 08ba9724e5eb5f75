"""Rows of what a Python program has in memory: tuples, texts, dicts, or a table of pandas, pyarrow or ``datasets``.

Tables are known by their methods, so that none of these packages is imported.
"""

import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from clearhead.data.layout import named_columns
from clearhead.errors import DataError, did_you_mean

ACCEPTED = (
    "pass (source, target) tuples, (label, text) tuples, lines of text, dicts, a pandas or Arrow table or a "
    "datasets.Dataset"
)
_USUAL = (("source", "target"), ("label", "text"), ("text",), ("label", "pixels"))
"""Columns that are found by their usual names, if nobody says which are meant."""
_NOTHING = object()


@dataclass(frozen=True)
class Table:
    """Rows that have the same columns."""

    columns: tuple[str, ...] | None
    """The names of the columns; None if they have none, and go by their order."""
    labels: frozenset[int]
    """Which columns may be labels, and so numbers."""
    rows: Iterator[Sequence[Any]]
    """The values of each row."""

    def place(self, name: str, row: int, column: int) -> str:
        """Where a value stands, as a message says it."""
        if self.columns is None:
            return f"{name}[{row}][{column}]"
        return f"{name}[{row}]" if self.columns == ("text",) else f"{name}[{row}], {self.columns[column]}"


def table_of(data: Any, name: str, asked: tuple[str, ...] | None = None) -> Table:
    """The rows of whatever was given; ``name`` is what messages call it, ``asked`` are the columns that are meant."""
    if isinstance(data, str | bytes | Path | Mapping | set | frozenset) or not _iterable(data):
        raise TypeError(f"{name}: is {kind_of_value(data)}{_advice(data)}")
    names = getattr(data, "column_names", None)
    if names is not None and hasattr(data, "to_batches"):
        return _named(names, _arrow_rows(data), name, asked)
    if names is not None:
        return _named(names, _dataset_rows(data, names), name, asked, _class_names(data, names))
    if hasattr(data, "columns") and hasattr(data, "itertuples"):
        return _frame(data, name, asked)
    return _rows(iter(data), name, asked)


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or what pandas writes for them."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number, of Python or numpy."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def kind_of_value(value: Any) -> str:
    """What a value is, in a message."""
    return "None" if value is None else f"of type {type(value).__name__}"


def brief(value: Any) -> str:
    """A value, as far as a message has room for it."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _iterable(data: Any) -> bool:
    try:
        iter(data)
    except TypeError:
        return hasattr(data, "to_batches")  # an Arrow table has batches to go over, and no rows
    return True


def _advice(data: Any) -> str:
    if isinstance(data, set | frozenset):
        return ", which has no order: pass a list, sorted(…)"
    if isinstance(data, Mapping) and data:
        return f": pass one of its tables, data[{next(iter(data))!r}], or pairs, list(data.items())"
    return f": {ACCEPTED}"


# ---- rows of every kind, as sequences of values ----


def _rows(rows: Iterator[Any], name: str, asked: tuple[str, ...] | None) -> Table:
    """The rows of any other iterable: the first one says what they are."""
    first = next(rows, _NOTHING)
    if first is _NOTHING:
        return Table(None, frozenset(), iter(()))
    rows = chain([first], rows)
    if isinstance(first, str):
        return Table(asked or ("text",), frozenset(), _texts(rows, name))
    if isinstance(first, Mapping):
        return _named(list(first), _dicts(rows, list(first), name), name, asked)
    return Table(asked, frozenset([0]), _pairs(rows, name))


def _texts(rows: Iterable[Any], name: str) -> Iterator[Sequence[Any]]:
    for index, row in enumerate(rows):
        if not isinstance(row, str) and not is_missing(row):
            raise TypeError(
                f"{name}[{index}]: is {kind_of_value(row)} among texts: every row is a str, as {name}[0] is"
            )
        yield (row,)


def _pairs(rows: Iterable[Any], name: str) -> Iterator[Sequence[Any]]:
    for index, row in enumerate(rows):
        found = row.tolist() if isinstance(row, np.ndarray) else row
        if not isinstance(found, tuple | list):
            raise TypeError(_stray(row, index, name, "pairs", "(source, target) tuple"))
        if len(found) != 2:
            raise TypeError(
                f"{name}[{index}]: has {len(found)} value{'s' * (len(found) != 1)}, {brief(found)}: "
                "pass two, (source, target) or (label, text); a line of text is a str"
            )
        yield found


def _dicts(rows: Iterable[Any], names: Sequence[Any], name: str) -> Iterator[Sequence[Any]]:
    for index, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise TypeError(
                f"{name}[{index}]: is {kind_of_value(row)} among dicts: every row is a dict, as {name}[0] is"
            )
        yield [row.get(column) for column in names]


def _stray(row: Any, index: int, name: str, others: str, wanted: str) -> str:
    """That a row is not like the first one; or that the first one is nothing that could be learnt from."""
    among = f" among {others}: every row is a {wanted}, as {name}[0] is" if index else f": {ACCEPTED}"
    return f"{name}[{index}]: is {kind_of_value(row)}{among}"


def _frame(data: Any, name: str, asked: tuple[str, ...] | None) -> Table:
    """A DataFrame; numbers as names of columns are pandas' own, for those who named nothing."""
    names, rows = list(data.columns), data.itertuples(index=False, name=None)
    if any(isinstance(column, str) for column in names):
        return _named(names, rows, name, asked)
    return Table(asked, frozenset([0]), _pairs(rows, name))


def _arrow_rows(data: Any) -> Iterator[Sequence[Any]]:
    for batch in data.to_batches():
        yield from zip(*(batch.column(place).to_pylist() for place in range(len(data.column_names))), strict=True)


def _dataset_rows(data: Any, names: Sequence[str]) -> Iterator[Sequence[Any]]:
    if not hasattr(data, "iter"):
        yield from ([row[column] for column in names] for row in data)
        return
    for batch in data.iter(batch_size=1000):  # a dict of lists: far faster than row by row
        yield from zip(*(batch[column] for column in names), strict=True)


def _class_names(data: Any, names: Sequence[str]) -> dict[str, Sequence[str]]:
    """The names of classes that a dataset keeps as numbers, by column."""
    features = getattr(data, "features", None) or {}
    found = {column: getattr(features.get(column), "names", None) for column in names}
    return {column: classes for column, classes in found.items() if classes}


# ---- which columns are meant ----


def _named(
    names: Sequence[Any],
    rows: Iterable[Sequence[Any]],
    name: str,
    asked: tuple[str, ...] | None,
    classes: Mapping[str, Sequence[str]] | None = None,
) -> Table:
    """Those columns of a table that are meant."""
    known = [str(column) for column in names]
    places, labels = _usual(known, name) if asked is None else _asked(known, name, asked)
    chosen = tuple(known[place] for place in places)
    called = [(classes or {}).get(column) for column in chosen]
    return Table(chosen, labels, (_with_names([row[place] for place in places], called) for row in rows))


def _asked(known: Sequence[str], name: str, asked: tuple[str, ...]) -> tuple[list[int], frozenset[int]]:
    for column in asked:
        if column not in known:
            near = did_you_mean(column, known)
            raise DataError(f"{name}: has no column {column}{near}: its columns are {', '.join(known)}")
    return [known.index(column) for column in asked], frozenset([0] if len(asked) == 2 else [])


def _usual(known: Sequence[str], name: str) -> tuple[list[int], frozenset[int]]:
    """All columns that some model could mean, by their usual names."""
    groups = [(columns, named_columns(known, columns)) for columns in _USUAL]
    places = sorted({place for _, found in groups if found for place in found})
    if not places:
        example = ", ".join(repr(column) for column in known[-2:])
        raise DataError(
            f"{name}: say which of its columns are meant, source and target, label and text, or the text alone: "
            f"columns=[{example}]; its columns are {', '.join(known)}"
        )
    marked = {found[0] for columns, found in groups if found and columns[0] == "label"}
    return places, frozenset(index for index, place in enumerate(places) if place in marked)


def _with_names(row: Sequence[Any], classes: Sequence[Sequence[str] | None]) -> Sequence[Any]:
    """The row with names of classes instead of their numbers; a number without a name, such as −1, is no label."""
    if not any(classes):
        return row
    return [
        (names[value] if 0 <= value < len(names) else None) if names and is_whole(value) else value
        for names, value in zip(classes, row, strict=True)
    ]
