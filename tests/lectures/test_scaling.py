"""Means and variances (L4.7, L4.8), by counting every outcome with fractions, and by drawing."""

from fractions import Fraction
from itertools import product
from math import prod

import pytest
import torch

from clearhead.attention import weigh
from clearhead.lectures.demonstrations.ways import spread_of_scores

Rows = list[tuple[int, ...]]
INDEPENDENT: Rows = list(product((0, 1, 4), (-1, 2), (1, 3)))
UNCORRELATED: Rows = [(-1, 1), (0, -2), (1, 1)]
SAME: Rows = [(0, 0), (1, 1), (4, 4)]


def mean(values: list[int]) -> Fraction:
    return Fraction(sum(values), len(values))


def variance(values: list[int]) -> Fraction:
    return mean([value**2 for value in values]) - mean(values) ** 2


def rules(rows: Rows) -> list[bool]:
    """Whether E[Σ], E[Π], Var[Σ] and Var[Π] are what the four rules say, over equally likely rows."""
    columns = [list(column) for column in zip(*rows, strict=True)]
    sums, products = [sum(row) for row in rows], [prod(row) for row in rows]
    means, variances = list(map(mean, columns)), list(map(variance, columns))
    second = prod((v + e**2 for e, v in zip(means, variances, strict=True)), start=Fraction(1))
    return [
        mean(sums) == sum(means),
        mean(products) == prod(means, start=Fraction(1)),
        variance(sums) == sum(variances),
        variance(products) == second - prod((e**2 for e in means), start=Fraction(1)),
    ]


def test_L4_7_which_rules_need_independence() -> None:
    """L4.7: all four for independent variables, the first three for two uncorrelated ones, one for any."""
    assert rules(INDEPENDENT) == [True, True, True, True]
    assert rules(UNCORRELATED) == [True, True, True, False]
    assert rules(SAME) == [True, False, False, False]


@pytest.mark.parametrize("d", [16, 64, 256])
def test_L4_8_the_variance_of_a_score_is_its_size(d: int) -> None:
    """L4.8: Var[q·k] = d_k for independent entries, and 1 once it is divided by √d_k; divided by d_k it is not."""
    query, keys = (torch.randn(300, d, dtype=torch.float64) for _ in range(2))
    spread = {scale: spread_of_scores(weigh(query, keys, scale=scale)) for scale in ("none", "sqrt", "dim")}
    assert spread["none"] == pytest.approx(float((query @ keys.T).var(-1).mean()))
    assert spread["none"] == pytest.approx(d, rel=0.1)
    assert spread["sqrt"] == pytest.approx(1.0, rel=0.1)
    assert spread["dim"] == pytest.approx(1 / d, rel=0.1)
