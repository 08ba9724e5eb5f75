"""Where one cost overtakes another: the length at which B beats A, solved."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import sympy
from sympy import Expr, Symbol

from clearhead.costing.forms.bill import ModelCost
from clearhead.costing.forms.formula import Formula
from clearhead.costing.forms.letters import OPEN, n
from clearhead.costing.forms.text import tidy
from clearhead.costing.forms.views import printed

What = Literal["work", "memory", "span"]
LONGEST = 2**40
"""Nobody asks for longer sequences."""


@dataclass(frozen=True)
class Quantity:
    """What is compared, and how it is counted."""

    title: str
    convention: str
    of: Callable[[ModelCost], Formula]


COMPARED: dict[What, Quantity] = {
    "work": Quantity("work", "multiply-accumulates, forward, dense", lambda cost: cost.macs),
    "memory": Quantity("memory", "bytes kept for the backward pass, attention explicit", lambda cost: cost.saved),
    "span": Quantity("span", "operations behind each other, forward, sums as trees", lambda cost: cost.span),
}


@dataclass(frozen=True)
class Crossing:
    """A place where the cheaper of two changes."""

    at: int
    """The first length at which the other one is cheaper."""
    cheaper: str
    """Which one it is from there on."""
    formula: Expr | None
    """The solution in letters, if there is a simple one."""


@dataclass(frozen=True)
class Crossover:
    """Two costs over a length."""

    letter: Symbol
    names: tuple[str, str]
    formulas: tuple[Formula, Formula]
    curves: tuple[Expr, Expr]
    """With everything but the length put in."""
    crossings: tuple[Crossing, ...]
    cheaper_at_first: str

    def equal_at(self, crossing: Crossing) -> str:
        """A crossing in words: where the two are equal, in letters and as a number, or the first length behind it."""
        if crossing.formula is None:
            return f"{self.letter} = {crossing.at:,}"
        sizes = {**self.formulas[0].sizes, **self.formulas[1].sizes}
        ways = [tidy(crossing.formula)]
        if (usual := tidy(printed(Formula(crossing.formula, sizes)).expression)) not in ways:
            ways.append(usual)
        worth = crossing.formula.xreplace(sizes)
        ways.append(f"{int(worth):,}" if worth.is_Integer else f"{float(worth):,.1f}")
        return f"{self.letter} = {' = '.join(ways)}"

    def at(self, length: int) -> tuple[int, int]:
        """Both costs at a length."""
        first, second = (int(curve.xreplace({self.letter: sympy.Integer(length)})) for curve in self.curves)
        return first, second


def crossover(first: Formula, second: Formula, *, names: tuple[str, str], over: str = "n", **fixed: int) -> Crossover:
    """Where the cheaper of two formulas changes as ``over`` grows; lengths that are not ``fixed`` grow with it."""
    symbol = OPEN[over]
    values = {OPEN[name]: sympy.Integer(fixed[name]) if name in fixed else symbol for name in ("n", "m", "t")}
    values |= {OPEN["B"]: sympy.Integer(fixed.get("B", 1)), symbol: symbol}
    first_curve, second_curve = (formula.numbers.xreplace(values) for formula in (first, second))

    def sign(length: int) -> int:
        difference = (second_curve - first_curve).xreplace({symbol: sympy.Integer(length)})
        return int(sympy.sign(difference))

    found = []
    state = sign(1)
    start_state, low = state, 1
    while low < LONGEST:
        high = 2 * low
        # a length between is looked at too: two curves may meet twice within a doubling
        for point in (3 * low // 2, high):
            if point > low and sign(point) not in (0, state):
                place = _bisect(sign, low, point, state)
                state = sign(place)
                found.append(Crossing(place, names[int(state < 0)], _solved(first, second, symbol, values, place)))
                low = place
        low = max(high, low)
    return Crossover(
        symbol, names, (first, second), (first_curve, second_curve), tuple(found), names[int(start_state < 0)]
    )


def _bisect(sign: Callable[[int], int], low: int, high: int, state: int) -> int:
    """The first length behind ``low`` where the sign is the other one."""
    while high - low > 1:
        middle = (low + high) // 2
        if sign(middle) in (0, state):
            low = middle
        else:
            high = middle
    return high


def _solved(first: Formula, second: Formula, symbol: Symbol, values: dict[Symbol, Expr], place: int) -> Expr | None:
    """The crossing in letters, if the difference divided by the length is linear in it."""
    mine, yours, sizes = first._joined(second)
    difference = sympy.expand((mine - yours).xreplace(values))
    if not difference.is_polynomial(symbol):
        return None
    coefficients = sympy.Poly(difference, symbol).all_coeffs()[::-1]
    while coefficients and coefficients[0] == 0:
        coefficients = coefficients[1:]
    if len(coefficients) != 2:
        return None
    solution = sympy.factor(sympy.cancel(-coefficients[0] / coefficients[1]))
    worth = solution.xreplace(dict(sizes))
    return solution if worth.is_number and place - 1 <= worth <= place else None


def quadratic_against_rest(cost: ModelCost, *, over: str = "n", **fixed: int) -> Crossover:
    """Where the terms with n² overtake everything else that an encoder layer, or a decoder layer, multiplies (L2.3)."""
    stack = next(part for part in cost.parts if part.name in ("encoder", "decoder"))
    layer = next(part for part in stack.parts if part.name.startswith("layers"))
    work = sympy.expand(layer.macs.expression)
    squared = work.coeff(n, 2) * n**2
    return crossover(
        Formula(squared, cost.sizes),
        Formula(sympy.expand(work - squared), cost.sizes),
        names=("n² terms", "the rest of the layer"),
        over=over,
        **fixed,
    )


def compare(
    first: ModelCost, second: ModelCost, *, what: What, names: tuple[str, str], over: str = "n", **fixed: int
) -> Crossover:
    """Two models over a length."""
    quantity = COMPARED[what]
    return crossover(quantity.of(first), quantity.of(second), names=names, over=over, **fixed)
