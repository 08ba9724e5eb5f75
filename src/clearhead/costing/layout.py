"""Tables for a terminal of 40 columns or more: formulas break before operators, text at spaces, words never.

Three ways to set a table, the first that fits is taken:

    all columns side by side, formulas and sentences wrapped in theirs
    formulas below their row, at full width
    as many columns side by side as there is room for, the others below their row as ``name: value``
"""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

NARROWEST = 40
"""Columns of the narrowest terminal that tables are set for."""
GAP = 2
"""Spaces between columns."""
ROOM = {"formula": 40, "words": 24}
"""A column that may wrap is worth having beside the others if it gets so many letters."""

Kind = Literal["name", "number", "formula", "words"]
Role = Literal["title", "head", "row", "note"]

_PIECE = re.compile(r"\S+ [=×] \S+|[+−=] \S+|[\d.,]+ (?:[KMG]iB|%)\S*|\S+")
"""What stays together: ``n = 512``, an operator and what follows it, a number and its unit, a word."""


class Column(NamedTuple):
    """A column and what it holds: names and numbers never wrap; formulas and words may."""

    title: str
    kind: Kind = "words"
    optional: bool = False
    """Left out where there is no room for it."""


class TextLine(NamedTuple):
    """One line of a terminal."""

    text: str
    role: Role


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most ``width`` letters, broken between words or before an operator; a longer word has a line alone.

    >>> wrapped("B·(2·n²·d + 4·n·d²)", 12)
    ['B·(2·n²·d', '+ 4·n·d²)']
    """
    lines: list[str] = []
    for piece in _PIECE.findall(text):
        for part in [piece] if len(piece) <= width else piece.split():
            if lines and len(lines[-1]) + 1 + len(part) <= width:
                lines[-1] += f" {part}"
            else:
                lines.append(part)
    return lines or [""]


def set_table(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> Iterator[TextLine]:
    """The lines of a table: its heads, then its rows."""
    widths = [max(map(len, (column.title, *(row[index] for row in rows)))) for index, column in enumerate(columns)]
    beside = _beside(columns, widths, width)
    sizes = _sizes(columns, widths, beside, width)
    heads = [columns[index].title for index in beside]
    if any(heads):
        yield TextLine(_joined(heads, [columns[index].kind for index in beside], sizes), "head")
    for row in rows:
        yield from (TextLine(text, "row") for text in _row(columns, row, beside, sizes, width))


def _beside(columns: Sequence[Column], widths: Sequence[int], width: int) -> list[int]:
    """Which columns stand side by side."""
    needed = [min(size, ROOM.get(column.kind, size)) for column, size in zip(columns, widths, strict=True)]

    def fits(chosen: Sequence[int]) -> bool:
        return sum(needed[index] for index in chosen) + GAP * (len(chosen) - 1) <= width

    everything = list(range(len(columns)))
    chosen = everything if fits(everything) else [index for index in everything if columns[index].kind != "formula"]
    while len(chosen) > 1 and not fits(chosen):
        # what can be left out goes first, then words, which read well below, then what stands last
        optional = [index for index in chosen[1:] if columns[index].optional]
        words = [index for index in chosen[1:] if columns[index].kind == "words"]
        chosen.remove((optional or words or chosen)[-1])
    return chosen


def _sizes(columns: Sequence[Column], widths: Sequence[int], beside: Sequence[int], width: int) -> list[int]:
    """How wide each of these columns is: those that wrap share equally what the others leave, and no one gets more than
    it needs."""
    sizes = {index: widths[index] for index in beside}
    flexible = sorted((index for index in beside if columns[index].kind in ROOM), key=lambda index: widths[index])
    room = width - GAP * (len(beside) - 1) - sum(size for index, size in sizes.items() if index not in flexible)
    for done, index in enumerate(flexible):
        sizes[index] = min(widths[index], room // (len(flexible) - done))
        room -= sizes[index]
    return [sizes[index] for index in beside]


def _joined(cells: Sequence[str], kinds: Sequence[Kind], sizes: Sequence[int]) -> str:
    padded = (
        cell.rjust(size) if kind == "number" else cell.ljust(size)
        for cell, kind, size in zip(cells, kinds, sizes, strict=True)
    )
    return (" " * GAP).join(padded).rstrip()


def _row(
    columns: Sequence[Column], row: Sequence[str], beside: Sequence[int], sizes: Sequence[int], width: int
) -> Iterator[str]:
    """A row: its cells side by side, then what stands below them."""
    kinds = [columns[index].kind for index in beside]
    cells = [
        wrapped(row[index], size) if kind in ROOM else [row[index]]
        for index, kind, size in zip(beside, kinds, sizes, strict=True)
    ]
    for number in range(max(map(len, cells))):
        line = [cell[number] if number < len(cell) else "" for cell in cells]
        yield _joined(line, kinds, sizes)
    inner = " " * min(len(row[0]) - len(row[0].lstrip()) + 4, width // 4)
    cells_below = [
        (column, text)
        for index, (column, text) in enumerate(zip(columns, row, strict=True))
        if index not in beside and text and not column.optional
    ]
    short = "; ".join(f"{column.title} {text}".strip() for column, text in cells_below if column.kind != "formula")
    numbers = [text for column, text in zip(columns, row, strict=True) if column.kind == "number"]
    # a formula that is a number says nothing that the number has not said
    formulas = [
        _equation(column, text) for column, text in cells_below if column.kind == "formula" and text not in numbers
    ]
    for text in [*([short] if short else []), *formulas]:
        yield from (inner + line for line in wrapped(text, width - len(inner)))


def _equation(column: Column, text: str) -> str:
    """A formula that stands below its row, with what it is a formula of, if the row has several."""
    return f"{column.title.removeprefix('formula').removeprefix(' of ')} = {text}".strip()
