"""Compares tensors and formulas."""

from collections.abc import Mapping

import sympy
from sympy import Expr
from torch import Tensor

from clearhead.costing import Formula
from clearhead.lectures.evidence import Measure

ROUNDING = 1e-5
"""How far two ways to one float32 result of size about 1 may be apart."""


def gap(mine: Tensor, other: Tensor) -> float:
    """max|Δ|."""
    return float((mine.detach() - other.detach()).abs().max())


def alike(what: str, mine: Tensor, other: Tensor, tolerance: float = ROUNDING) -> Measure:
    """Measure that two tensors are the same except for rounding."""
    if mine.shape != other.shape:
        return Measure(f"{what}: shape", str(tuple(other.shape)), str(tuple(mine.shape)))
    return Measure(f"{what}: max|Δ|", 0.0, gap(mine, other), tolerance=tolerance)


def far(what: str, mine: Tensor, other: Tensor, at_least: float) -> Measure:
    """Measure that two tensors of one shape are clearly different."""
    return Measure(f"{what}: max|Δ|", at_least, gap(mine, other), relation="≥")


def written(expression: Expr) -> str:
    """Format an expression: 4·d²·n."""
    return str(Formula(expression))


def formula_gap(what: str, claimed: Expr, derived: Expr) -> Measure:
    """Measure that a formula equals the derived expression: their difference is 0."""
    return Measure(f"{what}: claimed − derived", "0", written(sympy.expand(claimed - derived)))


def at(expression: Expr, sizes: Mapping[str, int]) -> int:
    """The value of an expression for these sizes."""
    return int(expression.subs({symbol: sizes[symbol.name] for symbol in expression.free_symbols}))
