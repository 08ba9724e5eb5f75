"""Interpolated modified Kneser–Ney (Chen & Goodman 1998) by whole arrays, and a table that is asked by whole arrays.

    p(w | h) = (a(h, w) − D(a)) / a(h, ·) + γ(h) · p(w | h′),   h′ = h without its first token

a is the raw count for the longest n-grams and for those that begin a line, and else the number of different tokens seen
before them; D(a) is one of three discounts for a = 1, 2, ≥ 3; γ(h) makes the sum 1. Below single tokens stands an even
share of the vocabulary.

The n-grams are the nodes of a tree: the root is the empty one, and the children of h are its continuations hw. Nodes
are numbered by their length, then by their parent, then by their token: the children of a node stand together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from clearhead.joint.alignment import places_among

BEGIN, END, FIRST = 0, 1, 2
"""Tokens: the beginning of a line, its end, and the first of its own."""
RARE_FROM = 6
"""N-grams of so many tokens or more are left out if they were seen once: what they know, shorter ones know as well."""
_SMALLEST = 1e-30

Ids = NDArray[np.int64]
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class NgramTable:
    """An n-gram model, ready to be asked.

    Args:
        vocabulary: tokens, ``BEGIN`` and ``END`` among them.
        tokens: the last token of each node; that of the root is 0.
        followers: how many nodes follow each node.
        log_p: log p of each node's last token after those before it.
        log_backoff: log γ of each node, as what other tokens follow.
    """

    vocabulary: int
    tokens: Ids
    followers: Ids
    log_p: Numbers
    log_backoff: Numbers
    _parents: Ids = field(init=False, repr=False)
    _keys: Ids = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Raises ``ValueError`` for arrays that are no tree, in which a look-up might never end."""
        if (self.followers < 0).any() or int(self.followers.sum()) + 1 != len(self.tokens):
            raise ValueError("the n-grams are no tree")
        parents = np.repeat(np.arange(len(self.followers)), self.followers)  # of all nodes but the root
        keys = parents * self.vocabulary + self.tokens[1:]
        known = (self.tokens >= 0) & (self.tokens < self.vocabulary)
        if not known.all() or (parents > np.arange(len(parents))).any() or (np.diff(keys) <= 0).any():
            raise ValueError("the n-grams are not in order")
        object.__setattr__(self, "_parents", parents)
        object.__setattr__(self, "_keys", keys)

    @cached_property
    def begin(self) -> int:
        """The node of what comes before the first token of a line."""
        return int(self._nodes(np.zeros(1, np.int64), np.array([BEGIN]))[0])

    @cached_property
    def _shorter(self) -> Ids:
        """Of each node, the node of its n-gram without the first token."""
        found = np.zeros(len(self.followers), np.int64)
        start, end = 1 + int(self.followers[0]), 1 + int(self.followers[: 1 + int(self.followers[0])].sum())
        while start < end:  # one length after the other
            nodes = np.arange(start, end)
            found[nodes] = self._nodes(found[self._parents[nodes - 1]], self.tokens[nodes])
            start, end = end, 1 + int(self.followers[:end].sum())
        return found

    @cached_property
    def _state(self) -> Ids:
        """Of each node, the longest of its ends that something follows: all that matters of it as a history."""
        found, done = np.arange(len(self.followers)), self.followers > 0
        done[0] = True
        while not done[found].all():
            found = np.where(done[found], found, self._shorter[found])
        return found

    def _nodes(self, nodes: Ids, tokens: Ids) -> Ids:
        """The child of each node with this token; 0 if there is none."""
        return places_among(self._keys, nodes * self.vocabulary + tokens) + 1

    def log_probabilities(self, states: Ids, tokens: Ids) -> tuple[Numbers, Ids]:
        """log p of each token after its state, and the state after it; the first state of a line is ``begin``."""
        total, after = np.zeros(len(states)), np.zeros(len(states), np.int64)
        now, left = states.copy(), np.arange(len(states))
        while len(left):
            found = self._nodes(now[left], tokens[left])
            known = found > 0
            total[left[known]] += self.log_p[found[known]]
            after[left[known]] = self._state[found[known]]
            left = left[~known]
            total[left] += self.log_backoff[now[left]]
            unseen = left[now[left] == 0]  # not even a single token is known: an even share
            total[unseen] -= np.log(self.vocabulary - 1)
            left = left[now[left] > 0]
            now[left] = self._shorter[now[left]]
        return total, after

    def score(self, lines: Sequence[Sequence[int]]) -> Numbers:
        """log p of each line of tokens, its end included."""
        sizes = np.array([len(line) for line in lines], np.int64)
        longest = int(sizes.max(initial=0))
        tokens = np.full((len(lines), longest + 1), END)
        for row, line in enumerate(lines):
            tokens[row, : len(line)] = line
        total, states = np.zeros(len(lines)), np.full(len(lines), self.begin)
        for place in range(longest + 1):
            rows = np.flatnonzero(sizes >= place)
            found, states[rows] = self.log_probabilities(states[rows], tokens[rows, place])
            total[rows] += found
        return total


@dataclass
class _Level:
    """All n-grams of one length; parents and ends are numbers of the level before."""

    parents: Ids
    tokens: Ids
    ends: Ids
    """The same n-gram without its first token."""
    counts: Ids
    begins: NDArray[np.bool_]
    """Whether it starts with the beginning of a line."""
    kept: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, bool))
    p: Numbers = field(default_factory=lambda: np.empty(0))
    backoff: Numbers = field(default_factory=lambda: np.empty(0))


def count_ngrams(
    lines: Sequence[Sequence[int]], *, order: int, vocabulary: int, rare_from: int = RARE_FROM
) -> NgramTable:
    """Count the n-grams of lines, whose tokens are ``FIRST`` or more, and smooth them.

    Args:
        lines: the lines, without ``BEGIN`` and ``END``.
        order: the longest n-grams.
        vocabulary: tokens, ``BEGIN`` and ``END`` among them.
        rare_from: the length from which n-grams that were seen once are left out. Default: 6.
    """
    levels = _levels(lines, order, vocabulary)
    for shorter, longer in pairwise(levels):  # what counts is in how many ways one is continued
        before = np.bincount(longer.ends, minlength=len(shorter.tokens))
        shorter.counts = np.where(shorter.begins, shorter.counts, before)
    levels[0].counts[levels[0].tokens == BEGIN] = 0  # which is never said
    for size, level in enumerate(levels, start=1):
        level.kept = (level.counts > 1) | (size < rare_from)
    for longer, shorter in pairwise(reversed(levels)):  # a tree has no gaps
        shorter.kept[longer.parents[longer.kept]] = True
        shorter.kept[longer.ends[longer.kept]] = True
    lower = np.full(len(levels[0].tokens), 1 / (vocabulary - 1))
    root = 1.0
    for number, level in enumerate(levels):
        above = levels[number - 1] if number else None
        own, backoff = _shares(level, 1 if above is None else len(above.tokens))
        level.p = own + backoff[level.parents] * (lower if above is None else above.p[level.ends])
        if above is None:
            root = float(backoff[0])
        else:
            above.backoff = backoff
    levels[-1].backoff = np.ones(len(levels[-1].tokens))
    return _table(levels, vocabulary, root)


def _levels(lines: Sequence[Sequence[int]], order: int, vocabulary: int) -> list[_Level]:
    flat = np.concatenate([np.array([BEGIN, *line, END], np.int64) for line in lines])
    lengths = np.array([len(line) + 2 for line in lines])
    places = np.arange(len(flat)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    levels: list[_Level] = []
    last = np.zeros(len(flat), np.int64)  # the number of the n-gram that ends at each place
    for size in range(1, order + 1):
        at = np.flatnonzero(places >= size - 1)
        if not len(at):
            break
        parents = last[at - 1] if size > 1 else np.zeros(len(at), np.int64)
        keys, numbers = np.unique(parents * vocabulary + flat[at], return_inverse=True)
        first = np.zeros(len(keys), np.int64)
        first[numbers] = at
        level = _Level(
            keys // vocabulary, keys % vocabulary, last[first], np.bincount(numbers), places[first] == size - 1
        )
        last = np.zeros(len(flat), np.int64)
        last[at] = numbers
        levels.append(level)
    return levels


def _shares(level: _Level, parents: int) -> tuple[Numbers, Numbers]:
    """What each n-gram keeps of its parent's probability, and what each parent gives to shorter n-grams."""
    counts = level.counts
    sizes = np.bincount(np.minimum(counts, 5), minlength=5)
    discounts = np.array([0.0, 0.5, 1.0, 1.5])  # KenLM's, where the counts of counts do not allow better ones
    if sizes[1:5].all():
        share = sizes[1] / (sizes[1] + 2 * sizes[2])
        better = [count - (count + 1) * share * sizes[count + 1] / sizes[count] for count in (1, 2, 3)]
        if all(0 <= discount <= count for count, discount in enumerate(better, start=1)):
            discounts[1:] = better
    kept = np.maximum(counts - discounts[np.minimum(counts, 3)], 0.0)
    total = np.bincount(level.parents, counts, minlength=parents)
    taken = np.bincount(level.parents, kept * level.kept, minlength=parents)
    some = total > 0
    backoff = 1.0 - np.divide(taken, total, out=np.zeros(parents), where=some)
    own = np.divide(kept, total[level.parents], out=np.zeros(len(kept)), where=some[level.parents])
    return own, backoff


def _table(levels: Sequence[_Level], vocabulary: int, root: float) -> NgramTable:
    tokens, log_p, backoffs = [np.zeros(1, np.int64)], [np.zeros(1)], [np.log(np.array([max(root, _SMALLEST)]))]
    followers, numbers = list[Ids](), np.zeros(1, np.int64)  # of the level above: their places among the kept
    count = 1
    for level in levels:
        followers.append(np.bincount(numbers[level.parents[level.kept]], minlength=count))
        count = int(level.kept.sum())
        numbers = np.cumsum(level.kept) - 1
        tokens.append(level.tokens[level.kept])
        log_p.append(np.log(np.maximum(level.p[level.kept], _SMALLEST)))
        backoffs.append(np.log(np.maximum(level.backoff[level.kept], _SMALLEST)))
    followers.append(np.zeros(count, np.int64))
    parts = (tokens, followers, log_p, backoffs)
    return NgramTable(vocabulary, *(np.concatenate(part) for part in parts))
