"""Which source tokens go with which target tokens, found by expectation–maximisation.

A pair is a sequence of units: one source token with none, one or two target tokens, or two with one (``SHAPES``). The
probability of a unit is its share of all units; which units a pair consists of is not known, so that each iteration
counts them over all alignments, by how probable these are (the forward–backward algorithm), and the most probable
alignment is kept at the end.

Pairs of the same lengths are computed together. Shapes: r pairs, i source tokens, j target tokens read so far.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SHAPES = ((1, 0), (1, 1), (2, 1), (1, 2))
"""Source and target tokens of a unit."""
ITERATIONS = 8
"""Of expectation and maximisation."""
_BITS = 15
"""Of a token in the key of a unit, which holds four."""
MOST_TOKENS = 2**_BITS - 1
"""Tokens of a vocabulary, at most."""
_TOGETHER = 4096
"""Pairs that are computed together, at most."""
_LEAST = 1e-280
"""A pair that is less probable cannot be aligned, or is too long for a float."""

Ids = NDArray[np.int64]
Numbers = NDArray[np.float64]
Cell = tuple[int, int, int]
"""Source tokens and target tokens before a unit, and its place in ``SHAPES``."""


def unit_keys(source: Ids, target: Ids, shape: tuple[int, int]) -> Ids:
    """One number for each unit; ``source`` and ``target`` are (r, 2), the tokens from the beginning of the unit on."""
    taken, written = shape
    key = source[:, 0] + 1
    for side, number, count in ((source, 1, taken), (target, 0, written), (target, 1, written)):
        key = key << _BITS
        if count > number:
            key = key | (side[:, number] + 1)  # 0 stands for no token
    return key


def places_among(keys: Ids, wanted: Ids) -> Ids:
    """Where each of these stands among keys that are in order; −1 for those that do not."""
    if not len(keys):
        return np.full(len(wanted), -1)
    places = np.searchsorted(keys, wanted)
    places[places == len(keys)] = 0
    return np.where(keys[places] == wanted, places, -1)


@dataclass
class _Group:
    """Pairs of the same lengths."""

    rows: Ids
    source: Ids
    target: Ids
    units: dict[Cell, Ids]
    """The units that may stand at a cell: their keys, later their numbers."""

    def cells(self) -> Iterator[Cell]:
        """Cells on the way from the beginning to the end, in an order in which all before one come first."""
        n, m = self.source.shape[1], self.target.shape[1]
        most = max(written for _, written in SHAPES)
        for i in range(n):
            for j in range(min(m, most * i) + 1):
                for shape, (taken, written) in enumerate(SHAPES):
                    left, unwritten = n - i - taken, m - j - written
                    if left >= 0 and 0 <= unwritten <= most * left:
                        yield i, j, shape


def _groups(sources: Sequence[Ids], targets: Sequence[Ids]) -> Iterator[_Group]:
    """Pairs by their lengths, with the keys of all units that they could consist of."""
    rows_of: dict[tuple[int, int], list[int]] = defaultdict(list)
    for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
        if len(source):
            rows_of[len(source), len(target)].append(row)
    for rows in rows_of.values():
        for at in range(0, len(rows), _TOGETHER):
            some = rows[at : at + _TOGETHER]
            group = _Group(
                np.array(some),
                np.stack([sources[row] for row in some]).astype(np.int64),
                np.stack([targets[row] for row in some]).astype(np.int64),
                {},
            )
            for i, j, shape in group.cells():
                parts = group.source[:, i : i + 2], group.target[:, j : j + 2]
                group.units[i, j, shape] = unit_keys(*parts, SHAPES[shape])
            yield group


def _numbered(groups: Sequence[_Group]) -> Ids:
    """Replace keys by numbers; returns the keys in their order."""
    found = [np.unique(np.concatenate(list(group.units.values()))) for group in groups if group.units]
    keys = np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)
    for group in groups:
        group.units = {cell: np.searchsorted(keys, given) for cell, given in group.units.items()}
    return keys


def _expected(group: _Group, share: Numbers) -> Numbers:
    """How often each unit is expected in these pairs, by the shares so far; pairs that cannot be aligned count 0."""
    n, m, r = group.source.shape[1], group.target.shape[1], len(group.rows)
    chances = {cell: share[units] for cell, units in group.units.items()}
    forward, backward = np.zeros((2, n + 1, m + 1, r))
    forward[0, 0] = backward[n, m] = 1.0
    for (i, j, shape), chance in chances.items():
        taken, written = SHAPES[shape]
        forward[i + taken, j + written] += forward[i, j] * chance
    for (i, j, shape), chance in reversed(chances.items()):
        taken, written = SHAPES[shape]
        backward[i, j] += backward[i + taken, j + written] * chance
    whole = forward[n, m]
    over = np.divide(1.0, whole, out=np.zeros(r), where=whole > _LEAST)
    posteriors = np.empty((len(chances), r))
    for row, ((i, j, shape), chance) in zip(posteriors, chances.items(), strict=True):
        taken, written = SHAPES[shape]
        np.multiply(forward[i, j] * chance, backward[i + taken, j + written] * over, out=row)
    units = np.concatenate(list(group.units.values())) if group.units else np.empty(0, np.int64)
    counts: Numbers = np.bincount(units, posteriors.ravel(), minlength=len(share)).astype(np.float64)
    return counts


def _most_probable(group: _Group, log_share: Numbers) -> Iterator[list[int] | None]:
    """The units of the most probable alignment of each pair, by number (Viterbi); None if there is none."""
    n, m, r = group.source.shape[1], group.target.shape[1], len(group.rows)
    best = np.full((n + 1, m + 1, r), -np.inf)
    best[0, 0] = 0.0
    chosen = np.zeros((n + 1, m + 1, r), np.int8)
    for (i, j, shape), units in group.units.items():
        taken, written = SHAPES[shape]
        value, there = best[i, j] + log_share[units], (i + taken, j + written)
        chosen[there] = np.where(value > best[there], shape, chosen[there])
        best[there] = np.maximum(value, best[there])
    for row in range(r):
        if best[n, m, row] == -np.inf:
            yield None
            continue
        i, j, units_back = n, m, list[int]()
        while i:
            shape = int(chosen[i, j, row])
            i, j = i - SHAPES[shape][0], j - SHAPES[shape][1]
            units_back.append(int(group.units[i, j, shape][row]))
        yield units_back[::-1]


def aligned(
    sources: Sequence[Ids],
    targets: Sequence[Ids],
    *,
    every: int = 1,
    iterations: int = ITERATIONS,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Ids, list[list[int] | None]]:
    """Align pairs of token ids.

    Returns the keys of all units, and for each pair the units of its best alignment, as places among the keys; None
    for a pair that no sequence of units makes, as one with more than twice as many target tokens as source tokens.

    Args:
        sources: the sources.
        targets: their targets.
        every: shares of units are learnt from each so many-th pair, where all take too much memory. Default: from all.
        iterations: of expectation and maximisation. Default 8.
        progress: told how many iterations are done, and how many there are.
    """
    groups = list(_groups(sources[::every], targets[::every]))
    keys = _numbered(groups)
    share = np.full(len(keys), 1.0 / max(1, len(keys)))
    for done in range(iterations):
        counts = np.zeros(len(keys))
        for group in groups:
            counts += _expected(group, share)
        share = counts / max(_LEAST, float(counts.sum()))
        if progress is not None:
            progress(done + 1, iterations)
    del groups
    with np.errstate(divide="ignore"):
        log_share = np.append(np.log(share), -np.inf)  # the last one, −1, is that of units that nobody has seen
    found: list[list[int] | None] = [None] * len(sources)
    for group in _groups(sources, targets):
        group.units = {cell: places_among(keys, given) for cell, given in group.units.items()}
        for row, units in zip(group.rows, _most_probable(group, log_share), strict=True):
            found[row] = units
    return keys, found
