"""Plans of epochs: the batches of the plan that was a list of all of them, and those of any window by itself."""

from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from clearhead.data import EncodedPairs, EpochPlan
from clearhead.data.plans import Shuffle, _cuts, examples_at
from tests.data.test_batches import encoded


def listed(pairs: EncodedPairs, *, seed: int, epoch: int, batch_tokens: int, window: int) -> list[NDArray[np.int64]]:
    """All batches of an epoch in one list, as plans were made before: runs of that time go on with the same ones."""
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(pairs))
    sizes = pairs.source.lengths + 1, pairs.target.lengths + 1
    longest = np.maximum(*sizes)
    batches: list[NDArray[np.int64]] = []
    for start in range(0, len(order), window):
        part = order[start : start + window]
        part = part[np.lexsort([size[part] for size in sizes])]
        rows = np.split(part, _cuts(longest[part], batch_tokens))
        batches += [rows[index] for index in rng.permutation(len(rows))]
    return batches


def lines(count: int) -> EncodedPairs:
    rng = np.random.default_rng(0)
    return encoded(rng.integers(1, 30, (count, 2)).tolist())


def flat(batches: list[NDArray[np.int64]]) -> list[list[int]]:
    return [rows.tolist() for rows in batches]


def test_the_batches_are_those_of_the_whole_list() -> None:
    """Also if windows are asked for in any order; a plan whose random numbers do not follow on has others."""
    pairs = lines(500)
    how: dict[str, Any] = {"seed": 3, "epoch": 2, "batch_tokens": 100, "window": 90}
    whole = flat(listed(pairs, **how))
    plan = EpochPlan(pairs, **how)
    assert flat(list(plan)) == whole
    assert plan.count() == len(whole)
    in_turn = [flat(plan.batches(window)) for window in range(plan.windows)]
    assert list(chain.from_iterable(in_turn)) == whole
    for window in (5, 0, 3, 3, 4, 1):
        assert flat(plan.batches(window)) == in_turn[window]
    assert flat(list(EpochPlan(pairs, **how, shuffle="formula"))) != whole


@given(st.integers(1, 700), st.integers(0, 2**63 - 1), st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_the_formula_puts_every_example_at_one_place(size: int, seed: int, epoch: int) -> None:
    found = examples_at(np.arange(size), size, (seed, epoch))
    assert sorted(found.tolist()) == list(range(size))
    some = np.array([0, size // 2, size - 1])
    assert examples_at(some, size, (seed, epoch)).tolist() == found[some].tolist()


def test_the_formula_mixes_well() -> None:
    """Where an example comes to stand has nothing to do with where it stood, in the file or in the epoch before."""
    size = 20_000
    first, second = (examples_at(np.arange(size), size, (1, epoch)) for epoch in (0, 1))
    for one, other in ((np.arange(size), first), (first, second), (first[:-1], first[1:])):
        assert abs(float(np.corrcoef(one, other)[0, 1])) < 0.03
    quarters = np.bincount(first[: size // 4] * 4 // size, minlength=4)
    assert np.abs(quarters - size / 16).max() < 5 * np.sqrt(size / 16)


@pytest.mark.parametrize("shuffle", ["list", "formula"])
def test_every_epoch_has_all_examples_once_in_an_order_of_its_own(shuffle: Shuffle) -> None:
    pairs = lines(300)

    def order(seed: int, epoch: int) -> list[int]:
        plan = EpochPlan(pairs, seed=seed, epoch=epoch, batch_tokens=64, window=100, shuffle=shuffle)
        return [int(row) for rows in plan for row in rows]

    orders = [order(*key) for key in ((1, 0), (1, 1), (2, 0))]
    assert all(sorted(found) == list(range(300)) for found in orders)
    assert len(set(map(tuple, orders))) == 3


def test_a_window_by_the_formula_touches_its_own_examples_only() -> None:
    """Ten million examples whose sizes are made up as they are asked for: only a window's are."""

    class Watched(EncodedPairs):
        asked = 0

        def __len__(self) -> int:
            return 10_000_000

        def sizes_of(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
            Watched.asked += len(rows)
            return (rows % 30 + 1,)

    one = lines(1)
    plan = EpochPlan(
        Watched(one.source, one.target, 0), seed=1, epoch=0, batch_tokens=512, window=5000, shuffle="formula"
    )
    batches = plan.batches(1234)
    assert (plan.windows, Watched.asked, sum(map(len, batches))) == (2000, 5000, 5000)
