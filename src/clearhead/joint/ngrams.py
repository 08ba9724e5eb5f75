"""Pairs as sequences of aligned units, and an n-gram model of these: log p(source, target)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clearhead.joint.alignment import MOST_TOKENS, SHAPES, aligned, places_among, unit_keys
from clearhead.joint.kneser_ney import END, FIRST, NgramTable, count_ngrams

ORDER = 8
"""Units of the longest n-grams."""
UNALIGNED = -100.0
"""log p of a pair that no known units make."""
_WIDTH = 12.0
"""Alignments of a pair that are so much less probable than its best one are not followed."""
MOST_CELLS = 40_000_000
"""Units that pairs could consist of, at most, while shares are learnt: of more pairs some are taken, evenly."""
MOST_OF_A_PAIR = 1024
"""Source tokens times target tokens of a pair that is aligned, at most."""
MOST_UNITS = 2**15 - FIRST - 1
"""Units, at most: two bytes hold the number of one."""
STEPS = 16.0
"""Steps of stored logarithms, for each unit of them: a byte reaches to e⁻¹⁶."""

Ids = NDArray[np.int64]
Numbers = NDArray[np.float64]
Line = Sequence[int] | Ids
"""The ids of the tokens of one side of a pair."""


@dataclass(frozen=True)
class JointNgrams:
    """How probable it is that a source and a target stand together.

    Args:
        units: the keys of the known units, in order.
        table: n-grams of units, whose tokens are places among ``units``, plus ``FIRST``.
    """

    units: Ids
    table: NgramTable

    def score(self, sources: Sequence[Line], targets: Sequence[Line]) -> Numbers:
        """log p(source, target) of each pair of token ids, over its alignments; ``UNALIGNED`` if there is none.

        All pairs are read side by side, one source token after the other. What is known of a pair does not depend on
        the others.
        """
        n = np.array([len(line) for line in sources], np.int64)
        m = np.array([len(line) for line in targets], np.int64)
        left, right = _padded(sources, 2), _padded(targets, 2)
        total = np.full(len(n), -np.inf)
        begun = _Paths(
            np.arange(len(n)), np.zeros(len(n), np.int64), np.full(len(n), self.table.begin), np.zeros(len(n))
        )
        waiting: list[list[_Paths]] = [[begun], *([] for _ in range(int(n.max(initial=0)) + 2))]
        for i, parts in enumerate(waiting):
            if not parts:
                continue
            paths = _merged(parts, len(self.table.tokens))
            ended = n[paths.pairs] == i
            whole = paths.only(ended & (paths.written == m[paths.pairs]))
            last, _ = self.table.log_probabilities(whole.states, np.full(len(whole.states), END))
            np.logaddexp.at(total, whole.pairs, whole.log_p + last)
            paths = paths.only(~ended)
            for shape in SHAPES:
                fits = (i + shape[0] <= n[paths.pairs]) & (paths.written + shape[1] <= m[paths.pairs])
                some = paths.only(fits)
                if len(some.pairs):
                    waiting[i + shape[0]].append(self._longer(some, shape, left[:, i : i + 2], right))
        found: Numbers = np.maximum(total, UNALIGNED)
        return found

    def _longer(self, paths: "_Paths", shape: tuple[int, int], source: Ids, targets: Ids) -> "_Paths":
        """Paths with one more unit of this shape, where that is a known one."""
        ahead = targets[paths.pairs[:, None], paths.written[:, None] + np.arange(2)]  # (paths, 2)
        keys = unit_keys(source[paths.pairs], ahead, shape)
        places = places_among(self.units, keys)
        known = places >= 0
        paths, units = paths.only(known), places[known] + FIRST
        log_p, states = self.table.log_probabilities(paths.states, units)
        return _Paths(paths.pairs, paths.written + shape[1], states, paths.log_p + log_p)


@dataclass(frozen=True)
class _Paths:
    """Beginnings of alignments, of the same number of source tokens."""

    pairs: Ids
    written: Ids
    """Target tokens so far."""
    states: Ids
    """Histories, as the table knows them."""
    log_p: Numbers

    def only(self, chosen: NDArray[np.bool_]) -> "_Paths":
        """Some of them."""
        return _Paths(self.pairs[chosen], self.written[chosen], self.states[chosen], self.log_p[chosen])


def _merged(parts: Sequence[_Paths], states: int) -> _Paths:
    """Paths that have come to the same place added up; those that are much worse than the best of a pair left out."""
    pairs, written, nodes, log_p = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("pairs", "written", "states", "log_p")
    )
    if not len(pairs):
        return _Paths(pairs, written, nodes, log_p)
    keys = (pairs * (int(written.max()) + 1) + written) * states + nodes
    order = np.argsort(keys, kind="stable")
    first = np.flatnonzero(np.diff(keys[order], prepend=-1))
    kept = order[first]
    paths = _Paths(pairs[kept], written[kept], nodes[kept], np.logaddexp.reduceat(log_p[order], first))
    best = np.full(int(pairs.max()) + 1, -np.inf)
    np.maximum.at(best, paths.pairs, paths.log_p)
    return paths.only(paths.log_p >= best[paths.pairs] - _WIDTH)


def _padded(lines: Sequence[Line], more: int) -> Ids:
    found = np.zeros((len(lines), max(map(len, lines), default=0) + more), np.int64)
    for row, line in enumerate(lines):
        found[row, : len(line)] = line
    return found


def fit(
    sources: Sequence[Ids],
    targets: Sequence[Ids],
    *,
    order: int = ORDER,
    progress: Callable[[int, int], None] | None = None,
) -> JointNgrams | None:
    """Align pairs and count their n-grams; None if hardly any can be aligned, or a vocabulary is too large.

    Pairs that are very long are left out, and of very many pairs some say which units there are. ``progress`` is told
    how many passes over the pairs are done, and how many there are.
    """
    cells = np.array([len(SHAPES) * len(s) * len(t) for s, t in zip(sources, targets, strict=True)], np.int64)
    fits = np.flatnonzero((cells > 0) & (cells <= len(SHAPES) * MOST_OF_A_PAIR)).tolist()
    every = max(1, -(-int(cells[fits].sum()) // MOST_CELLS))
    if 2 * len(fits) < len(cells) or _largest(sources, targets) >= MOST_TOKENS:
        return None
    keys, alignments = aligned(
        [sources[row] for row in fits], [targets[row] for row in fits], every=every, progress=progress
    )
    lines = [np.array(line) for line in alignments if line]
    if 2 * len(lines) < len(fits) or not lines:
        return None
    counts = np.bincount(np.concatenate(lines), minlength=len(keys))
    used = np.flatnonzero(counts)
    if len(used) > MOST_UNITS:  # the rarest, and the pairs that have them, are left out
        used = np.sort(used[np.argsort(-counts[used], kind="stable")[:MOST_UNITS]])
    places = np.full(len(keys), -1)
    places[used] = np.arange(len(used)) + FIRST
    units = [line for line in (places[line].tolist() for line in lines) if -1 not in line]
    table = count_ngrams(units, order=order, vocabulary=len(used) + FIRST)
    return JointNgrams(keys[used], _rounded(table))


def _largest(sources: Sequence[Ids], targets: Sequence[Ids]) -> int:
    """The largest id of a token."""
    return max((int(line.max(initial=0)) for side in (sources, targets) for line in side), default=0)


def in_bytes(logs: Numbers) -> NDArray[np.uint8]:
    """Logarithms of probabilities as they are stored, in steps of 1/16."""
    found: NDArray[np.uint8] = np.clip(np.rint(-STEPS * logs), 0, 255).astype(np.uint8)
    return found


def from_bytes(stored: NDArray[np.uint8]) -> Numbers:
    """What was stored."""
    return -stored.astype(np.float64) / STEPS


def _rounded(table: NgramTable) -> NgramTable:
    """The table with the numbers that are stored, so that a model answers the same before and after."""
    logs = [from_bytes(in_bytes(part)) for part in (table.log_p, table.log_backoff)]
    return NgramTable(table.vocabulary, table.tokens, table.followers, *logs)


def explained(
    model: JointNgrams,
    known: tuple[Sequence[Ids], Sequence[Ids]],
    new: tuple[Sequence[Ids], Sequence[Ids]],
    *,
    order: int = ORDER,
) -> float:
    """Which part of what new targets say is known from their sources: their mutual information over the targets' own.

    log p(x, y) − log p(x) − log p(y), divided by −log p(y): 1 if the target follows from the source, and about 0, or
    less, if the model sees no connection. The n-gram models of the sides alone are counted from ``known`` pairs.
    """
    together = model.score(*new)
    alone = []
    for old, lines in zip(known, new, strict=True):
        vocabulary = FIRST + 1 + _largest(old, lines)
        table = count_ngrams([(line + FIRST).tolist() for line in old], order=order, vocabulary=vocabulary)
        alone.append(table.score([(line + FIRST).tolist() for line in lines]))
    source, target = alone
    return float((together - source - target).sum() / -target.sum())
