"""Ways to look at a formula: as the lectures print it, and as it grows.

*exact* is the closed form itself. *printed* is derived from it by the simplifications in ``PRINTED``. *asymptotic*
drops constant factors and every term that another one outgrows.
"""

from collections.abc import Iterable
from typing import Literal

import sympy
from sympy import Add, Expr, Mul, Pow, Symbol

from clearhead.costing.forms.formula import Formula, total_over_steps
from clearhead.costing.forms.letters import B, latest, least, letter, lg, pieces, t

View = Literal["exact", "printed", "asymptotic"]

PRINTED = (
    "one sequence: B = 1",
    "matrix products alone: no biases, gains, softmax and norms",
    "d_ff = 4d where it is that",
)
"""What the lectures leave out or assume; ``printed`` does exactly this to the exact form."""


def printed(formula: Formula) -> Formula:
    """A formula as the lectures print it; give it the part that they count (``macs``, ``matrices``)."""
    expression = formula.expression.xreplace({B: sympy.Integer(1)})
    wide = {
        symbol: 4 * letter("d")
        for symbol, size in formula.sizes.items()
        if symbol.name.startswith("d_ff") and size == 4 * formula.sizes.get(letter("d"), 0)
    }
    return Formula(sympy.expand(expression.xreplace(wide)), formula.sizes)


def asymptotic(expression: Expr, within: Iterable[Symbol] | None = None) -> Expr:
    """How an expression grows, for people to put into O(…): the terms that no other term outgrows, without factors.

    ``within`` names the letters that grow; all others are constants. Without it every letter grows. ⌈log₂ x⌉ is
    written lg(x); of lg(d/h) lg(d) is left, as it is no smaller.
    """
    expression = _without_maxima(expression).replace(
        lambda part: isinstance(part, pieces), lambda part: part.args[0] / part.args[1]
    )
    expression = sympy.expand(expression)
    expression = expression.replace(lambda part: isinstance(part, lg), lambda part: _log(part.args[0]))
    expression = expression.replace(
        lambda part: isinstance(part, Pow) and part.base == 2, lambda part: _power_of_log(part.exp)
    )
    growing = set(expression.free_symbols if within is None else within)
    monomials = {_monomial(term, growing) for term in Add.make_args(sympy.expand(expression))}
    kept = [one for one in monomials if not any(other != one and _outgrows(other, one) for other in monomials)]
    return Add(*(Mul(*(symbol**power * lg(symbol) ** logs for symbol, (power, logs) in one)) for one in kept))


_Monomial = frozenset[tuple[Symbol, tuple[int, int]]]


def _without_maxima(expression: Expr) -> Expr:
    """max(u, v) grows as u + v does, also inside a sum over steps; min(u, v) not faster than v, which is the bound."""
    expression = expression.replace(lambda part: isinstance(part, sympy.Sum), _sum_without_maxima)
    expression = expression.replace(lambda part: isinstance(part, latest), lambda part: Add(*part.args))
    return expression.replace(lambda part: isinstance(part, least), lambda part: part.args[1])


def _sum_without_maxima(total: sympy.Sum) -> Expr:
    step, first, last = total.limits[0]
    return total_over_steps(_without_maxima(total.function).xreplace({step: t}), first, last)


def _log(argument: Expr) -> Expr:
    """lg of a product is the sum of its factors' logarithms; what divides only makes it smaller."""
    numerator = sympy.fraction(sympy.together(argument))[0]
    return Add(*(lg(symbol) for symbol in numerator.free_symbols)) if numerator.free_symbols else sympy.Integer(1)


def _power_of_log(exponent: Expr) -> Expr:
    """2^⌈log₂ x⌉ is less than 2x."""
    return Mul(*exponent.free_symbols)


def _monomial(term: Expr, growing: set[Symbol]) -> _Monomial:
    powers: dict[Symbol, tuple[int, int]] = {}
    for base, exponent in term.as_powers_dict().items():
        for symbol in base.free_symbols & growing:
            power, logs = powers.get(symbol, (0, 0))
            is_log = isinstance(base, lg)
            powers[symbol] = (power + (0 if is_log else exponent), logs + (exponent if is_log else 0))
    return frozenset(powers.items())


def _outgrows(one: _Monomial, other: _Monomial) -> bool:
    mine, yours = dict(one), dict(other)
    return all(mine.get(symbol, (0, 0)) >= growth for symbol, growth in yours.items()) and all(
        growth >= yours.get(symbol, (0, 0)) for symbol, growth in mine.items()
    )
