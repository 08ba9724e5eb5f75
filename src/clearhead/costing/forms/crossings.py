"""Lengths at which the cheaper of two formulas changes: found by signs, solved in letters where that is easy."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import sympy
from sympy import Expr, Symbol

from clearhead.costing.forms.formula import Formula
from clearhead.costing.forms.letters import OPEN

LONGEST = 2**40
"""Crossings are looked for up to this length."""


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
class Curves:
    """Two formulas as functions of one length, with everything else put in."""

    letter: Symbol
    formulas: tuple[Formula, Formula]
    values: Mapping[Symbol, Expr]
    """What every open letter stands for: a number, or the length that grows."""

    @classmethod
    def over(cls, letter: str, first: Formula, second: Formula, fixed: Mapping[str, int]) -> "Curves":
        """Both formulas over this letter; lengths that are not ``fixed`` grow with it."""
        symbol = OPEN[letter]
        values = {OPEN[name]: sympy.Integer(fixed[name]) if name in fixed else symbol for name in ("n", "m", "t")}
        return cls(symbol, (first, second), values | {OPEN["B"]: sympy.Integer(fixed.get("B", 1)), symbol: symbol})

    @property
    def expressions(self) -> tuple[Expr, Expr]:
        """Both, in the letter alone."""
        first, second = (formula.numbers.xreplace(dict(self.values)) for formula in self.formulas)
        return first, second

    def crossings(self, names: tuple[str, str]) -> tuple[str, tuple[Crossing, ...]]:
        """Which one is cheaper at length 1, and every length from which on the other one is."""
        first, second = self.expressions
        difference = second - first

        def sign(length: int) -> int:
            return int(sympy.sign(difference.xreplace({self.letter: sympy.Integer(length)})))

        found = []
        state = sign(1)
        start_state, low = state, 1
        while low < LONGEST:
            high = 2 * low
            # a length between is tried too: two curves may meet twice within a doubling
            for point in (3 * low // 2, high):
                if point > low and sign(point) not in (0, state):
                    place = _bisect(sign, low, point, state)
                    state = sign(place)
                    found.append(Crossing(place, names[int(state < 0)], self._solved(place)))
                    low = place
            low = max(high, low)
        return names[int(start_state < 0)], tuple(found)

    def _solved(self, place: int) -> Expr | None:
        """The crossing in letters, if the difference divided by the length is linear in it."""
        mine, yours, sizes = self.formulas[0]._joined(self.formulas[1])
        difference = sympy.expand((mine - yours).xreplace(dict(self.values)))
        if not difference.is_polynomial(self.letter):
            return None
        coefficients = sympy.Poly(difference, self.letter).all_coeffs()[::-1]
        while coefficients and coefficients[0] == 0:
            coefficients = coefficients[1:]
        if len(coefficients) != 2:
            return None
        solution = sympy.factor(sympy.cancel(-coefficients[0] / coefficients[1]))
        worth = solution.xreplace(dict(sizes))
        return solution if worth.is_number and place - 1 <= worth <= place else None


def _bisect(sign: Callable[[int], int], low: int, high: int, state: int) -> int:
    """The first length after ``low`` where the sign is the other one."""
    while high - low > 1:
        middle = (low + high) // 2
        if sign(middle) in (0, state):
            low = middle
        else:
            high = middle
    return high
