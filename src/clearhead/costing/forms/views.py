"""Ways to look at a formula: written for people, as the lectures print it, and as it grows.

*exact* is the closed form itself. *printed* is derived from it by the simplifications in ``PRINTED``. *asymptotic*
drops constant factors and every term that another one outgrows.
"""

import re
from collections.abc import Iterable
from typing import Literal

import sympy
from sympy import Add, Expr, Mul, Pow, Symbol

from clearhead.costing.forms.formula import Formula
from clearhead.costing.forms.letters import B, latest, letter, lg, m, n, t

View = Literal["exact", "printed", "asymptotic"]

PRINTED = (
    "one sequence: B = 1",
    "matrix products alone: no biases, gains, softmax and norms",
    "d_ff = 4d where it is that",
)
"""What the lectures leave out or assume; ``printed`` does exactly this to the exact form."""

_ORDER = {name: place for place, name in enumerate(("B", "L", "n", "m", "t", "X", "Y", "k", "h", "d", "d_ff", "V"))}
_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


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
    expression = sympy.expand(_without_maxima(expression))
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
    """max(u, v) grows as u + v does."""
    return expression.replace(lambda part: isinstance(part, latest), lambda part: Add(*part.args))


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


# -- for people ----------------------------------------------------------------------------------------------------


def tidy(expression: Expr) -> str:
    """An expression for a terminal, B in front and lengths first: ``B·(4·n·d² + 2·n²·d)``."""
    terms = list(Add.make_args(sympy.expand_mul(expression)))
    front = ""
    if len(terms) > 1 and all(term.has(B) and term.as_powers_dict().get(B) == 1 for term in terms):
        front, terms = "B·", [term / B for term in terms]
    written = _sum(terms)
    return f"{front}({written})" if front else written


def _sum(terms: list[Expr]) -> str:
    terms = sorted(terms, key=_rank)
    text = _term(terms[0])
    for term in terms[1:]:
        piece = _term(term)
        text += f" − {piece[1:]}" if piece.startswith("−") else f" + {piece}"
    return text


def _rank(term: Expr) -> tuple[int, int, str]:
    """Terms with more letters, and with higher powers of the lengths, come first; logarithms behind, numbers last."""
    powers = term.as_powers_dict()
    degree = sum(int(power) for base, power in powers.items() if isinstance(base, Symbol) and power.is_Integer)
    lengths = sum(int(power) for base, power in powers.items() if base in (n, m, t) and power.is_Integer)
    return -degree, -lengths, _term(term)


def _term(term: Expr) -> str:
    number, rest = term.as_coeff_Mul()
    sign, number = ("−", -number) if number < 0 else ("", number)
    if rest == 1:
        return sign + sympy.sstr(number)
    top, bottom = [], []
    for base, power in sorted(rest.as_powers_dict().items(), key=lambda item: _place(item[0])):
        (bottom if power.is_negative else top).append(_factor(base, -power if power.is_negative else power))
    text = "·".join(([] if number.p == 1 and top else [str(number.p)]) + top)
    below = ([] if number.q == 1 else [str(number.q)]) + bottom
    return sign + text + "".join(f"/{part}" for part in below)


def _factor(base: Expr, power: Expr) -> str:
    text = _atom(base)
    if power == 1:
        return text
    return text + (str(power).translate(_SUPERSCRIPT) if power.is_Integer else f"^{_atom(power)}")


def _atom(part: Expr) -> str:
    if isinstance(part, Symbol):
        return str(part.name)
    if isinstance(part, lg):
        return f"lg({tidy(part.args[0])})"
    if isinstance(part, latest):
        return f"max({', '.join(tidy(argument) for argument in part.args)})"
    if isinstance(part, Add):
        return f"({tidy(part)})"
    return re.sub(r"\*\*(\d+)", lambda match: match[1].translate(_SUPERSCRIPT), sympy.sstr(part)).replace("*", "·")


def _place(base: Expr) -> tuple[int, str]:
    name = str(base)
    return (_ORDER.get(name, 50) if isinstance(base, Symbol) else 100), name
