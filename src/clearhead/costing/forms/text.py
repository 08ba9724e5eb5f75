"""Formulas for a terminal: B in front, lengths first, superscripts, ⌈log₂ x⌉ as lg(x)."""

import re

import sympy
from sympy import Add, Expr, Symbol

from clearhead.costing.forms.letters import B, depth, latest, least, lg, m, n, pieces, t

_ORDER = {name: place for place, name in enumerate(("B", "L", "n", "m", "t", "X", "Y", "k", "h", "d", "d_ff", "V"))}
_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def tidy(expression: Expr) -> str:
    """An expression for a terminal, B in front and lengths first: ``B·(2·n²·d + 4·n·d²)``."""
    front, terms = _without_batch(expression)
    return f"{front}({_sum(terms)})" if front else _sum(terms)


def compact(expression: Expr) -> str:
    """The same with what is there in every layer in one bracket: ``B·(L·(2·n²·d + 4·n·d²) + n·d·V)``."""
    front, terms = _without_batch(expression)
    layers: dict[Symbol, list[Expr]] = {}
    for term in terms:
        for symbol in sorted(term.free_symbols, key=str):
            if re.fullmatch(r"L(_\w+)?", symbol.name) and term.as_powers_dict().get(symbol) == 1:
                layers.setdefault(symbol, []).append(term)
                break
    grouped = {symbol: inside for symbol, inside in layers.items() if len(inside) > 1}
    rest = [term for term in terms if not any(term in inside for inside in grouped.values())]
    if not grouped:
        return tidy(expression)
    pieces = [f"{symbol}·({_sum([term / symbol for term in inside])})" for symbol, inside in grouped.items()]
    if not rest and len(pieces) == 1:
        return front + pieces[0]
    if rest and (text := _sum(rest)):
        pieces.append(text)
    written = " + ".join(pieces).replace("+ −", "− ")
    return f"{front}({written})" if front else written


def _without_batch(expression: Expr) -> tuple[str, list[Expr]]:
    """``B·`` and the terms without it, if several terms have it, all of them."""
    terms = list(Add.make_args(_flat(expression)))
    if len(terms) > 1 and all(term.has(B) and term.as_powers_dict().get(B) == 1 for term in terms):
        return "B·", [term / B for term in terms]
    return "", terms


def _flat(expression: Expr) -> Expr:
    """A sum of products; most formulas are that already, and multiplying out is slow."""
    nested = any(
        isinstance(factor.base if factor.is_Pow else factor, Add)
        for term in Add.make_args(expression)
        for factor in term.args
    )
    return sympy.expand_mul(expression) if nested else expression


def _sum(terms: list[Expr]) -> str:
    first, *others = (text for _, _, text in sorted(map(_rank, terms)))
    return first + "".join(f" − {text[1:]}" if text.startswith("−") else f" + {text}" for text in others)


def _rank(term: Expr) -> tuple[int, int, str]:
    """Where a term stands, and its text: more letters, and higher powers of the lengths, come first; numbers come last.

    A text takes long where maxima stand in maxima: it is made once, to be sorted by and to be shown.
    """
    powers = term.as_powers_dict()
    degree = sum(int(power) for base, power in powers.items() if isinstance(base, Symbol) and power.is_Integer)
    lengths = sum(int(power) for base, power in powers.items() if base in (n, m, t) and power.is_Integer)
    return -degree, -lengths, _term(term)


def _term(term: Expr) -> str:
    number, rest = term.as_coeff_Mul()
    sign, number = ("−", -number) if number < 0 else ("", number)
    if rest == 1:
        return f"{sign}{number}"
    top: list[str] = []
    bottom: list[str] = []
    factors = list(rest.as_powers_dict().items())
    if len(factors) > 1:
        factors.sort(key=lambda factor: _place(factor[0]))
    for base, power in factors:
        (bottom if power.is_negative else top).append(_factor(base, -power if power.is_negative else power))
    text = "·".join(([] if number.p == 1 and top else [str(number.p)]) + top)
    below = ([] if number.q == 1 else [str(number.q)]) + bottom
    return sign + text + "".join(f"/{part}" for part in below)


def _factor(base: Expr, power: Expr) -> str:
    text = _atom(base)
    if power == 1:
        return text
    return text + (str(power).translate(_SUPERSCRIPT) if power.is_Integer else f"^{_atom(power)}")


def _atom(part: Expr) -> str:  # noqa: PLR0911 - one for each kind of expression
    if isinstance(part, Symbol):
        return str(part.name)
    if isinstance(part, lg):
        return f"lg({tidy(part.args[0])})"
    if isinstance(part, depth):
        size, base = part.args
        return f"⌈log_{tidy(base) if base.is_Atom else f'({tidy(base)})'}({tidy(size)})⌉"
    if isinstance(part, pieces):
        size, piece = (f"({tidy(one)})" if isinstance(one, Add) else tidy(one) for one in part.args)
        return f"⌈{size}/{piece}⌉"
    if isinstance(part, least | latest):
        name = "min" if isinstance(part, least) else "max"
        return f"{name}({', '.join(tidy(argument) for argument in part.args)})"
    if isinstance(part, Add):
        return f"({tidy(part)})"
    if isinstance(part, sympy.Sum):
        step, first, last = part.limits[0]
        return f"Σ({step.name} = {tidy(first)} … {tidy(last)}; {tidy(part.function)})"
    if isinstance(part, sympy.ceiling):
        inside = re.sub(r"log\((\w+)\)/log\((\w+)\)", r"log_\2(\1)", sympy.sstr(sympy.together(part.args[0])))
        return f"⌈{inside.replace('*', '·').replace(' - ', ' − ')}⌉"
    return re.sub(r"\*\*(\d+)", lambda match: match[1].translate(_SUPERSCRIPT), sympy.sstr(part)).replace("*", "·")


def _place(base: Expr) -> tuple[int, str]:
    name = str(base)
    return (_ORDER.get(name, 50) if isinstance(base, Symbol) else 100), name
