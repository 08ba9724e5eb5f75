"""Alignments against every alignment there is, and units that are told apart."""

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from clearhead.joint import SHAPES, aligned, unit_keys

PAIRS = [([1, 2, 3], [7, 9]), ([1, 2], [7, 8]), ([2, 3], [8, 9]), ([3, 3, 1], [9, 7]), ([1], [7, 8]), ([2, 1], [8])]
Unit = tuple[tuple[int, ...], tuple[int, ...]]


def sides_of(pairs: list[tuple[list[int], list[int]]]) -> tuple[list[Any], list[Any]]:
    return [np.array(source) for source, _ in pairs], [np.array(target) for _, target in pairs]


def all_alignments(source: list[int], target: list[int]) -> list[list[Unit]]:
    """Every way to make a pair of units, one unit after the other."""
    if not source:
        return [] if target else [[]]
    found = []
    for taken, written in SHAPES:
        if taken <= len(source) and written <= len(target):
            unit = tuple(source[:taken]), tuple(target[:written])
            found += [[unit, *rest] for rest in all_alignments(source[taken:], target[written:])]
    return found


def by_hand(iterations: int) -> dict[Unit, float]:
    """Shares of units after some iterations, by listing all alignments."""
    ways = [all_alignments(*pair) for pair in PAIRS]
    units = {unit for some in ways for way in some for unit in way}
    share = dict.fromkeys(units, 1 / len(units))
    for _ in range(iterations):
        counts: Counter[Unit] = Counter()
        for some in ways:
            chances = [math.prod(share[unit] for unit in way) for way in some]
            for way, chance in zip(some, chances, strict=True):
                for unit in way:
                    counts[unit] += chance / sum(chances)  # type: ignore[assignment]
        share = {unit: counts[unit] / sum(counts.values()) for unit in units}
    return share


def key_of(unit: Unit) -> int:
    source, target = (np.array([[*side, 0, 0][:2]]) for side in unit)
    return int(unit_keys(source, target, (len(unit[0]), len(unit[1])))[0])


@pytest.mark.parametrize("iterations", [1, 4])
def test_the_best_alignment_is_the_best_of_all(iterations: int) -> None:
    """Expectation–maximisation and Viterbi as loops over all alignments; fewer iterations align otherwise."""
    share = by_hand(iterations)
    keys, found = aligned(*sides_of(PAIRS), iterations=iterations)
    for pair, units in zip(PAIRS, found, strict=True):
        assert units is not None
        best = max(all_alignments(*pair), key=lambda way: sum(math.log(share[unit]) for unit in way))
        chances = sum(math.log(share[unit]) for unit in best)
        named = {key_of(unit): unit for unit in share}
        assert sum(math.log(share[named[int(keys[unit])]]) for unit in units) == pytest.approx(chances, abs=1e-9)


def test_every_unit_has_a_key_of_its_own() -> None:
    """No token, token 0 and tokens in the other place are told apart."""
    tokens = (0, 1, 5)
    units = [
        (source, target)
        for taken, written in SHAPES
        for source in itertools.product(tokens, repeat=taken)
        for target in itertools.product(tokens, repeat=written)
    ]
    assert len({key_of(unit) for unit in units}) == len(units)


def test_what_cannot_be_aligned_is_left_out() -> None:
    sources, targets = (
        [np.array([1]), np.array([1]), np.array([], int)],
        [np.array([2, 3, 4]), np.array([2]), np.array([2])],
    )
    _, found = aligned(sources, targets)
    assert found[0] is None  # three tokens for one
    assert found[1] is not None
    assert found[2] is None
    assert aligned([], [])[1] == []


def test_pairs_that_are_too_many_for_one_group_are_the_same_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    sides = sides_of(PAIRS * 5)
    whole = aligned(*sides)[1]
    monkeypatch.setattr("clearhead.joint.alignment._TOGETHER", 2)
    assert aligned(*sides)[1] == whole
