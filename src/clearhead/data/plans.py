"""Which examples are trained on together, in which order: all of it follows from (seed, epoch), window by window.

Only one window of an epoch is ever computed at a time, so that a plan takes the same memory for any number of examples.
"""

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clearhead.data.arrays import Encoded

Shuffle = Literal["list", "formula"]
"""How all examples are shuffled: by a list of their numbers, or by a formula that says which one stands at a place."""
ROUNDS = 8
"""Of the formula: with four the halves of a number already depend on each other; more costs little."""


class EpochPlan:
    """The batches of one epoch, each a row of indices; iterate over all of them, or ask for those of a window.

    Examples are shuffled, and inside each window sorted by length (pairs by target, then source), so that lines of a
    batch are of a size and little is padded; then the window's batches are shuffled. A batch has at most
    ``batch_tokens`` padded tokens on its longer side.

    Args:
        examples: the encoded training examples.
        seed: of the run.
        epoch: counted from 0.
        batch_tokens: the largest batch.
        window: examples that are sorted together.
        shuffle: ``list`` draws a list of all examples, 8 bytes each, and one window after the other from the same
            random numbers. ``formula`` lists nothing: any window is computed from its own number alone.
    """

    def __init__(
        self,
        examples: Encoded,
        *,
        seed: int,
        epoch: int,
        batch_tokens: int,
        window: int,
        shuffle: Shuffle = "list",
    ) -> None:
        self._examples, self._key = examples, (seed, epoch)
        self._budget, self._window, self._shuffle = batch_tokens, window, shuffle
        self.windows = -(-len(examples) // window)
        """How many windows the epoch has."""
        self._rng = np.random.default_rng(self._key)
        self._order: NDArray[np.int64] | None = None
        self._now: tuple[int, list[NDArray[np.int64]]] = (-1, [])

    def batches(self, window: int) -> list[NDArray[np.int64]]:
        """The batches of a window, counted from 0; asked for again, or for the next one, it is quickest."""
        if self._now[0] != window:
            if self._shuffle == "formula":
                self._now = window, self._computed(window, np.random.default_rng((*self._key, window + 1)))
            else:
                self._advance(window)
        return self._now[1]

    def __iter__(self) -> Iterator[NDArray[np.int64]]:
        """All batches, in their order."""
        for window in range(self.windows):
            yield from self.batches(window)

    def count(self) -> int:
        """The number of batches; every window is computed for it."""
        return sum(len(self.batches(window)) for window in range(self.windows))

    def _advance(self, window: int) -> None:
        """Go on to a window: the random numbers of one follow on those of the windows before it."""
        if self._order is None or self._now[0] > window:
            self._rng = np.random.default_rng(self._key)
            self._order, self._now = self._rng.permutation(len(self._examples)), (-1, [])
        while self._now[0] < window:
            following = self._now[0] + 1
            self._now = following, self._computed(following, self._rng)

    def _computed(self, window: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
        start, end = window * self._window, min((window + 1) * self._window, len(self._examples))
        if self._order is not None:
            part = self._order[start:end]
        else:
            part = examples_at(np.arange(start, end), len(self._examples), self._key)
        sizes = self._examples.sizes_of(part)
        sorting = np.lexsort(sizes)
        part, longest = part[sorting], np.max(sizes, axis=0)[sorting]
        rows = np.split(part, _cuts(longest, self._budget))
        return [rows[index] for index in rng.permutation(len(rows))]


def examples_at(places: NDArray[np.int64], size: int, key: tuple[int, int]) -> NDArray[np.int64]:
    """Which example stands at each place of a shuffled epoch of ``size`` examples: a permutation by a formula.

    A Feistel network turns a number of 2h bits into another, both halves of h bits, and no two into the same: a half is
    exchanged for its sum (⊕) with a hash of the other one and a key of the round. What comes out is turned again until
    it is below ``size``, which happens after four times at most on average.
    """
    half = max(1, (max(1, size - 1).bit_length() + 1) // 2)
    mask, keys = np.uint64((1 << half) - 1), np.random.default_rng(key).integers(0, 1 << 63, ROUNDS, dtype=np.uint64)
    found = places.astype(np.uint64)
    left = np.arange(len(found))
    while len(left):
        high, low = found[left] >> np.uint64(half), found[left] & mask
        for secret in keys:
            high, low = low, high ^ (_hashed(low ^ secret) & mask)
        found[left] = (high << np.uint64(half)) | low
        left = left[found[left] >= size]
    return found.astype(np.int64)


def _hashed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Numbers in which each bit depends on all bits of the given ones (the finish of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _cuts(sizes: NDArray[np.int64], budget: int) -> list[int]:
    """Where to cut a sorted window so that no batch is larger than the budget."""
    cuts, start, longest = [], 0, 0
    for index, size in enumerate(sizes.tolist()):
        wider = max(longest, size)
        if wider * (index - start + 1) > budget and index > start:
            cuts.append(index)
            start, longest = index, size
        else:
            longest = wider
    return cuts
