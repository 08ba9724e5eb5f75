"""Answers beside their references. A source may have several; an answer is compared with the one that suits it best."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

References = Sequence[Sequence[str]]
"""For each source, all its references."""


def edit_distance(left: Sequence[str], right: Sequence[str]) -> int:
    """Insertions, deletions and substitutions that turn one sequence into the other.

    A row of the usual table is kept as the signs of its steps, one bit each in two whole numbers, so that a row takes
    a few operations, however long it is (Myers 1999, in the form of Hyyrö 2003).

    >>> edit_distance("kitten", "sitting")
    3
    """
    if not left or not right:
        return len(left) + len(right)
    places: dict[str, int] = {}  # of each symbol in ``left``, as bits
    for place, symbol in enumerate(left):
        places[symbol] = places.get(symbol, 0) | 1 << place
    everywhere, last = (1 << len(left)) - 1, 1 << (len(left) - 1)
    up, down, distance = everywhere, 0, len(left)  # steps of +1 and −1 from place to place, and the row's last entry
    for symbol in right:
        same = places.get(symbol, 0)
        kept = (((same & up) + up) ^ up) | same | down  # where an entry equals the one diagonally before it
        rises = down | ~(kept | up) & everywhere  # where the new row is larger than the old one
        falls = up & kept
        distance += bool(rises & last) - bool(falls & last)
        rises, falls = (rises << 1 | 1) & everywhere, falls << 1 & everywhere
        up, down = falls | ~(kept | rises) & everywhere, rises & kept
    return distance


def line_errors(answers: Sequence[str], references: References) -> NDArray[np.float64]:
    """1 for each answer that equals none of its references, (n,)."""
    pairs = zip(answers, references, strict=True)
    return np.array([float(answer not in known) for answer, known in pairs])


def symbol_errors(answers: Sequence[str], references: References, *, spaced: bool) -> NDArray[np.float64]:
    """(edit distance to the closest reference, its length) for each answer, (n, 2).

    Symbols stand between spaces if ``spaced``; otherwise they are characters.
    """

    def symbols(text: str) -> Sequence[str]:
        return text.split() if spaced else text

    rows = []
    for answer, known in zip(answers, references, strict=True):
        mine = symbols(answer)
        if answer in known:
            rows.append((0, len(mine)))
            continue
        distances = [(edit_distance(mine, theirs), len(theirs)) for theirs in map(symbols, known)]
        rows.append(min(distances, key=lambda pair: (pair[0] / max(1, pair[1]), pair[0])))
    return np.array(rows, dtype=np.float64)
