"""A formula: a sympy expression in letters, and the sizes that a recipe gives to some of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import sympy
from sympy import Expr, Symbol

from clearhead.costing.forms.letters import OPEN, lg, t
from clearhead.costing.forms.text import tidy

Number: TypeAlias = int | Expr


@dataclass(frozen=True, eq=False)
class Formula:
    """Something that a model costs, as a closed form.

    ``expression`` has letters for the sizes (d, h, L …), which ``sizes`` gives numbers to, and for what stays open: n,
    m, B and t. ``at`` puts numbers in; formulas can be added, subtracted, multiplied and compared.

    >>> from clearhead.costing.forms.letters import letter, n
    >>> work = Formula(4 * n * letter("d") ** 2 + 2 * n**2 * letter("d"), {letter("d"): 512})
    >>> print(work)
    2·n²·d + 4·n·d²
    >>> work.at(n=100)
    115097600
    """

    expression: Expr
    sizes: Mapping[Symbol, int] = field(default_factory=dict)

    @property
    def numbers(self) -> Expr:
        """The expression with the recipe's sizes put in; only n, m, B and t are left."""
        return self.expression.xreplace(dict(self.sizes))

    def at(self, **values: int) -> Any:
        """The number, if all letters have one; else the formula that is left. ``batch`` is another name for B."""
        if "batch" in values:
            values["B"] = values.pop("batch")
        known = {symbol.name: symbol for symbol in self.sizes} | OPEN
        if unknown := set(values) - set(known):
            raise ValueError(f"no letter {sorted(unknown)[0]!r} (there are: {', '.join(sorted(known))})")
        given = {known[name]: sympy.Integer(value) for name, value in values.items()}
        value = self.expression.xreplace({**self.sizes, **given})
        value = value.replace(lambda part: isinstance(part, sympy.Sum), _summed)
        if value.free_symbols:
            return Formula(value)
        value = sympy.nsimplify(value) if value.has(sympy.Float) else value
        return int(value) if value.is_Integer else value.doit()

    # -- arithmetic ----------------------------------------------------------------------------------------------

    def _joined(self, other: "Formula | Number") -> tuple[Expr, Expr, Mapping[Symbol, int]]:
        """Both expressions over the same letters; a letter that means two sizes becomes its number in both."""
        if not isinstance(other, Formula):
            return self.expression, sympy.sympify(other), self.sizes
        clash = {letter for letter in set(self.sizes) & set(other.sizes) if self.sizes[letter] != other.sizes[letter]}
        mine, yours = (
            formula.expression.xreplace({letter: sympy.Integer(formula.sizes[letter]) for letter in clash})
            for formula in (self, other)
        )
        sizes = {letter: size for letter, size in {**self.sizes, **other.sizes}.items() if letter not in clash}
        return mine, yours, sizes

    def __add__(self, other: "Formula | Number") -> "Formula":
        mine, yours, sizes = self._joined(other)
        return Formula(mine + yours, sizes)

    __radd__ = __add__

    def __sub__(self, other: "Formula | Number") -> "Formula":
        mine, yours, sizes = self._joined(other)
        return Formula(mine - yours, sizes)

    def __mul__(self, other: "Formula | Number") -> "Formula":
        mine, yours, sizes = self._joined(other)
        return Formula(mine * yours, sizes)

    __rmul__ = __mul__

    def __truediv__(self, other: "Formula | Number") -> "Formula":
        mine, yours, sizes = self._joined(other)
        return Formula(mine / yours, sizes)

    # -- comparison: of what the formulas are worth with their sizes put in -------------------------------------------

    def _difference(self, other: "Formula | Number") -> Expr:
        worth = other.numbers if isinstance(other, Formula) else sympy.sympify(other)
        return sympy.expand(self.numbers - worth)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Formula | int | Expr) and self._difference(other) == 0

    def __hash__(self) -> int:
        return hash(sympy.expand(self.numbers))

    def __lt__(self, other: "Formula | Number") -> Any:
        return self._difference(other) < 0

    def __le__(self, other: "Formula | Number") -> Any:
        return self._difference(other) <= 0

    def __gt__(self, other: "Formula | Number") -> Any:
        return self._difference(other) > 0

    def __ge__(self, other: "Formula | Number") -> Any:
        return self._difference(other) >= 0

    # -- for people ----------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        return tidy(self.expression)

    def __repr__(self) -> str:
        return f"Formula({self})"

    def _repr_latex_(self) -> str:
        return f"${latex(self.expression)}$"

    @property
    def latex(self) -> str:
        """LaTeX without dollar signs."""
        return latex(self.expression)


def latex(expression: Expr) -> str:
    """An expression in LaTeX."""
    return str(sympy.latex(expression))


def total_over_steps(expression: Expr, first: Expr, last: Expr) -> Expr:
    """Σ_{t=first}^{last} of an expression that is made of powers of t and of ⌈log₂ t⌉.

    Σ_{t=1}^{k} ⌈log₂ t⌉ = k⌈log₂ k⌉ − 2^⌈log₂ k⌉ + 1. Where t stands in a maximum the sum stays a sum.
    """
    expression = sympy.expand_mul(expression)
    depth = expression.coeff(lg(t), 1)
    rest = sympy.expand_mul(expression - depth * lg(t))
    if depth.has(t) or not rest.is_polynomial(t):
        step = sympy.Dummy("t", integer=True, positive=True)  # bound, so that no number is put in for it
        return sympy.Sum(expression.xreplace({t: step}), (step, first, last))
    total = sum(
        (coefficient * _power_sum(power, first, last) for (power,), coefficient in sympy.Poly(rest, t).terms()),
        sympy.Integer(0),
    )
    return total + depth * (_log_sum(last) - _log_sum(first - 1))


def _summed(total: sympy.Sum) -> Expr:
    """A sum over steps as a number, if its ends are numbers; over steps with the same ⌈log₂ t⌉ it has a closed form."""
    body, (step, first, last) = total.function, total.limits[0]
    if total.free_symbols:
        return total
    value, begin = sympy.Integer(0), int(first)
    while begin <= last:
        depth = lg(sympy.Integer(begin))
        end = min(int(last), max(begin, 2 ** int(depth)))
        here = sympy.expand_mul(body.xreplace({lg(step): depth}))
        if here.is_polynomial(step):
            value += total_over_steps(here.xreplace({step: t}), sympy.Integer(begin), sympy.Integer(end))
        else:
            value += sum(here.xreplace({step: sympy.Integer(now)}) for now in range(begin, end + 1))
        begin = end + 1
    return value


def _power_sum(power: int, first: Expr, last: Expr) -> Expr:
    """Σ t^power for the powers that occur: 0, 1 and 2."""
    sums = {
        0: lambda k: k,
        1: lambda k: k * (k + 1) / 2,
        2: lambda k: k * (k + 1) * (2 * k + 1) / 6,
    }
    return sympy.expand(sums[power](last) - sums[power](first - 1))


def _log_sum(end: Expr) -> Expr:
    """Σ_{t=1}^{end} ⌈log₂ t⌉."""
    return sympy.Integer(0) if end == 0 else end * lg(end) - 2 ** lg(end) + 1
