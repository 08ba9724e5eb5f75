"""The letters of the formulas: lengths that stay open, sizes that a recipe fixes, and ⌈log₂ x⌉.

n   source tokens, or the tokens of a model that has one sequence
m   target tokens
B   sequences in a batch
t   tokens so far, in one step of decoding
"""

from collections.abc import Mapping

import sympy
from sympy import Expr, Integer, Symbol


def letter(name: str) -> Symbol:
    """A positive whole number with this name."""
    return Symbol(name, integer=True, positive=True)


W = letter("W")
"""Devices that train together."""
n, m, B, t = letter("n"), letter("m"), letter("B"), letter("t")
OPEN = {"n": n, "m": m, "B": B, "t": t}
"""What a recipe leaves open."""


class lg(sympy.Function):  # type: ignore[misc]  # noqa: N801 - a function of mathematics
    """⌈log₂ x⌉: how many rounds of pairwise additions a sum of x terms takes."""

    nargs = 1
    is_integer = True
    is_nonnegative = True

    @classmethod
    def eval(cls, size: Expr) -> Expr | None:
        """A number, if x is one."""
        return Integer((max(int(size), 1) - 1).bit_length()) if size.is_Integer and size.is_nonnegative else None

    def _latex(self, printer: sympy.printing.printer.Printer, exp: str | None = None) -> str:
        text = rf"\left\lceil \log_2 {printer._print(self.args[0])} \right\rceil"
        return text if exp is None else f"{text}^{{{exp}}}"


class latest(sympy.Function):  # type: ignore[misc]  # noqa: N801 - a function of mathematics
    """The larger of two times, where the lengths decide; sympy's Max would try to decide again at every sum."""

    nargs = 2
    is_integer = True
    is_nonnegative = True

    @classmethod
    def eval(cls, one: Expr, other: Expr) -> Expr | None:
        """A number, if both are; what is never less than a number, beside that number."""
        if one.is_Integer and other.is_Integer:
            return max(one, other)
        for more, number in ((one, other), (other, one)):
            if number.is_Integer and all(part >= 0 for part in (more - number).as_coefficients_dict().values()):
                return more
        return None

    def _latex(self, printer: sympy.printing.printer.Printer, exp: str | None = None) -> str:
        inner = ", ".join(printer._print(argument) for argument in self.args)
        return rf"\max\left({inner}\right)" + ("" if exp is None else f"^{{{exp}}}")

    def _sympystr(self, printer: sympy.printing.printer.Printer) -> str:
        return f"max({', '.join(printer._print(argument) for argument in self.args)})"


class least(sympy.Function):  # type: ignore[misc]  # noqa: N801 - a function of mathematics
    """The smaller of two sizes, where the lengths decide."""

    nargs = 2
    is_integer = True
    is_nonnegative = True

    @classmethod
    def eval(cls, one: Expr, other: Expr) -> Expr | None:
        """A number, if both are; 1, beside a length."""
        if one.is_Integer and other.is_Integer:
            return min(one, other)
        return one if one == 1 and other.is_integer and other.is_positive else None

    def _latex(self, printer: sympy.printing.printer.Printer, exp: str | None = None) -> str:
        inner = ", ".join(printer._print(argument) for argument in self.args)
        return rf"\min\left({inner}\right)" + ("" if exp is None else f"^{{{exp}}}")


class depth(sympy.Function):  # type: ignore[misc]  # noqa: N801 - a function of mathematics
    """⌈log_b x⌉: how many layers join x tokens if each sees b times as far as the one before."""

    nargs = 2
    is_integer = True
    is_nonnegative = True

    @classmethod
    def eval(cls, size: Expr, base: Expr) -> Expr | None:
        """A number, if both are, without rounding."""
        if not (size.is_Integer and base.is_Integer and base > 1):
            return None
        layers, seen = 0, 1
        while seen < size:
            layers, seen = layers + 1, seen * int(base)
        return Integer(layers)

    def _latex(self, printer: sympy.printing.printer.Printer, exp: str | None = None) -> str:
        size, base = (printer._print(argument) for argument in self.args)
        text = rf"\left\lceil \log_{{{base}}} {size} \right\rceil"
        return text if exp is None else f"{text}^{{{exp}}}"


class pieces(sympy.Function):  # type: ignore[misc]  # noqa: N801 - a function of mathematics
    """⌈x/c⌉: how many pieces of c tokens a line of x tokens is cut into, the last one filled up."""

    nargs = 2
    is_integer = True
    is_nonnegative = True

    @classmethod
    def eval(cls, size: Expr, piece: Expr) -> Expr | None:
        """A number, if both are; the line itself, if a piece is a token."""
        if piece == 1:
            return size
        return Integer(-(-int(size) // int(piece))) if size.is_Integer and piece.is_Integer else None

    def _latex(self, printer: sympy.printing.printer.Printer, exp: str | None = None) -> str:
        size, piece = (printer._print(argument) for argument in self.args)
        text = rf"\left\lceil \frac{{{size}}}{{{piece}}} \right\rceil"
        return text if exp is None else f"{text}^{{{exp}}}"


def later(one: Expr, other: Expr) -> Expr:
    """The larger of two times; a maximum stays only where the lengths decide."""
    if one == other or _at_least(one, other):
        return one
    return other if _at_least(other, one) else latest(one, other)


def _at_least(one: Expr, other: Expr) -> bool:
    """Whether one ≥ other whatever the letters are: their difference has no negative term."""
    difference = one - other  # both are flat sums, so that equal terms vanish
    if all(coefficient >= 0 for coefficient in difference.as_coefficients_dict().values()):
        return True
    # max(u, v) + rest is at least u + rest
    return any(
        _at_least(one.xreplace({maximum: argument}), other)
        for maximum in one.atoms(latest)
        if not other.has(maximum)
        for argument in maximum.args
    )


class Letters:
    """Names for the sizes of one model: the same letter for the same size, and a marked one where parts differ.

    >>> letters = Letters()
    >>> letters("d", 512, "enc"), letters("d", 512, "dec"), letters("d", 256, "dec")
    (d, d, d_dec)
    """

    def __init__(self) -> None:
        self._values: dict[Symbol, int] = {}

    def __call__(self, name: str, value: int, part: str = "") -> Symbol:
        """The letter of this size."""
        for candidate in (name, f"{name}_{part}", *(f"{name}_{part}{number}" for number in range(2, 1000))):
            symbol = letter(candidate)
            if self._values.setdefault(symbol, value) == value:
                return symbol
        raise ValueError(f"too many sizes called {name}")

    @property
    def values(self) -> Mapping[Symbol, int]:
        """What the letters stand for."""
        return {symbol: Integer(value) for symbol, value in self._values.items()}
