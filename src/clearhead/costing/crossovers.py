"""Where one model becomes cheaper than another: the question, and its answer as a table, a picture or JSON."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import sympy
from sympy import Expr, Symbol

from clearhead.costing.forms.bill import ModelFormulas
from clearhead.costing.forms.crossings import Crossing, Curves
from clearhead.costing.forms.formula import Formula
from clearhead.costing.forms.letters import n
from clearhead.costing.forms.text import tidy
from clearhead.costing.forms.views import printed
from clearhead.costing.layout import Column
from clearhead.costing.model import ModelCost
from clearhead.costing.picture import save_lines
from clearhead.costing.sheet import Cell, CostReport, Formulaic, Sheet
from clearhead.drawing.figure import Lines, Series
from clearhead.drawing.html import figures_html, fragment
from clearhead.errors import Problem, RecipeError

What = Literal["work", "memory", "span"]
NEVER = "they do not cross"
LONGEST_NAME = 52
"""Letters of a name that a legend has room for."""


@dataclass(frozen=True)
class Quantity:
    """What is compared, and how it is counted."""

    title: str
    convention: str
    of: Callable[[ModelFormulas], Formula]


COMPARED: dict[What, Quantity] = {
    "work": Quantity("work", "multiply-accumulates, forward, dense", lambda cost: cost.macs),
    "memory": Quantity("memory", "bytes kept for the backward pass, attention explicit", lambda cost: cost.saved),
    "span": Quantity("span", "sequential operations, forward, sums as trees", lambda cost: cost.span),
}


@dataclass(frozen=True, repr=False)
class Crossover:
    """Two costs over a length, and the lengths at which the cheaper one changes.

    Print it for a table; ``save("x.svg")`` draws both curves.
    """

    letter: Symbol
    """The length that grows, n or m."""
    names: tuple[str, str]
    formulas: tuple[Formula, Formula]
    curves: tuple[Expr, Expr]
    """With everything but the length put in."""
    crossings: tuple[Crossing, ...]
    cheaper_at_first: str
    """Which one it is at length 1."""
    title: str = "cost"
    """What is compared."""
    convention: str = ""
    """How it is counted."""
    fixed: Mapping[str, int] = field(default_factory=dict)
    """Lengths that do not grow with the letter."""

    def at(self, length: int) -> tuple[int, int]:
        """Both costs at a length."""
        first, second = (int(curve.xreplace({self.letter: sympy.Integer(length)})) for curve in self.curves)
        return first, second

    def equal_at(self, crossing: Crossing) -> str:
        """A crossing in words: where the two are equal, in letters and as a number, or the first length after it."""
        if crossing.formula is None:
            return f"{self.letter} = {crossing.at:,}"
        sizes = {**self.formulas[0].sizes, **self.formulas[1].sizes}
        ways = [tidy(crossing.formula)]
        if (usual := tidy(printed(Formula(crossing.formula, sizes)).expression)) not in ways:
            ways.append(usual)
        worth = crossing.formula.xreplace(sizes)
        ways.append(f"{int(worth):,}" if worth.is_Integer else f"{float(worth):,.1f}")
        return f"{self.letter} = {' = '.join(ways)}"

    def save(self, path: str | Path) -> None:
        """Draw both curves into a file: ``.svg``; ``.png`` and ``.pdf`` need matplotlib (the extra ``plot``)."""
        save_lines(self._figure(), Path(path))

    def report(self) -> CostReport:
        """A row for every length from which on the other one is cheaper: ``text``, ``markdown``, ``latex``."""
        columns = [
            Column(f"from {self.letter} =", "number"),
            *(Column("cheaper", "name"), Column("A", "number"), Column("B", "number"), Column("equal at")),
        ]
        marks = dict(zip(self.names, "AB", strict=True))
        rows: list[list[Cell]] = [["1", marks[self.cheaper_at_first], *(f"{value:,}" for value in self.at(1)), ""]]
        for place in self.crossings:
            words = self.equal_at(place)
            equal = words if place.formula is None else Formulaic(words, place.formula)
            rows.append([f"{place.at:,}", marks[place.cheaper], *(f"{value:,}" for value in self.at(place.at)), equal])
        lengths = ", ".join(f"{letter} = {value}" for letter, value in self.fixed.items())
        notes = [f"{self.convention}; {lengths}" + ("" if "m" in self.fixed else "; other lengths grow with it")]
        notes += [f"{marks[name]}, {name}: {formula}" for name, formula in zip(self.names, self.formulas, strict=True)]
        if not self.crossings:
            notes.append(f"{NEVER}: {self.cheaper_at_first} is never more expensive")
        return CostReport([Sheet(self.title, columns, rows, notes)])

    def json(self) -> dict[str, Any]:
        """Names, formulas and crossings, ready for ``json.dumps``."""
        return {
            "over": self.letter.name,
            "convention": self.convention,
            "fixed": dict(self.fixed),
            "names": list(self.names),
            "formulas": [str(formula) for formula in self.formulas],
            "cheaper_at_first": self.cheaper_at_first,
            "crossings": [
                {
                    "at": crossing.at,
                    "cheaper": crossing.cheaper,
                    "formula": None if crossing.formula is None else tidy(crossing.formula),
                    "values": list(self.at(crossing.at)),
                }
                for crossing in self.crossings
            ],
        }

    def _sentence(self) -> str:
        later = [f"from {self.letter} = {crossing.at:,}: {crossing.cheaper}" for crossing in self.crossings]
        return f"cheaper at first: {self.cheaper_at_first}; {'; '.join(later) or NEVER}"

    def _figure(self) -> Lines:
        """Both costs over the lengths around the crossings, on logarithmic axes."""
        places = [crossing.at for crossing in self.crossings] or [256]
        low, high = max(1, min(places) // 32), 32 * max(places)
        lengths = sorted({round(low * 2 ** (step / 4)) for step in range(4 * (high // low).bit_length() - 3)})
        values = [self.at(length) for length in lengths]
        series = tuple(
            Series(
                name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…",
                tuple(map(float, lengths)),
                tuple(float(max(pair[index], 1)) for pair in values),
            )
            for index, name in enumerate(self.names)
        )
        return Lines(
            title=self.title,
            alt=self._sentence(),
            x_label=f"{self.letter}, tokens",
            y_label=self.convention,
            series=series,
            log_x=True,
            log_y=True,
            marks=tuple((float(one.at), float(self.at(one.at)[0]), self.equal_at(one)) for one in self.crossings),
        )

    def __repr__(self) -> str:
        return f"Crossover({self.title}: {self._sentence()})"

    def __str__(self) -> str:
        return self.report().text()

    def _repr_html_(self) -> str:
        return fragment(figures_html([self._figure()]) + self.report().html())


def meet(
    first: Formula,
    second: Formula,
    *,
    names: tuple[str, str],
    over: str = "n",
    title: str = "cost",
    convention: str = "",
    **fixed: int,
) -> Crossover:
    """Where the cheaper of two formulas changes as ``over`` grows; lengths that are not ``fixed`` grow with it."""
    curves = Curves.over(over, first, second, fixed)
    cheaper_at_first, crossings = curves.crossings(names)
    return Crossover(
        letter=curves.letter,
        names=names,
        formulas=(first, second),
        curves=curves.expressions,
        crossings=crossings,
        cheaper_at_first=cheaper_at_first,
        title=title,
        convention=convention,
        fixed=fixed,
    )


def quadratic_against_rest(cost: ModelFormulas, *, over: str = "n", **fixed: int) -> Crossover:
    """Where the terms with n² overtake everything else that an encoder layer, or a decoder layer, multiplies (L2.3)."""
    stack = next(part for part in cost.parts if part.name in ("encoder", "decoder"))
    layer = next(part for part in stack.parts if part.name.startswith("layers"))
    work = sympy.expand(layer.macs.expression)
    squared = work.coeff(n, 2) * n**2
    return meet(
        Formula(squared, cost.sizes),
        Formula(sympy.expand(work - squared), cost.sizes),
        names=("n² terms", "the rest of the layer"),
        over=over,
        title=f"{cost.title}: a layer's work",
        convention=COMPARED["work"].convention,
        **fixed,
    )


def compare(
    first: ModelFormulas, second: ModelFormulas, *, what: What, names: tuple[str, str], over: str = "n", **fixed: int
) -> Crossover:
    """Two models over a length."""
    quantity = COMPARED[what]
    return meet(
        quantity.of(first),
        quantity.of(second),
        names=names,
        over=over,
        title=quantity.title,
        convention=quantity.convention,
        **fixed,
    )


def crossover(
    first: ModelCost,
    second: ModelCost | None = None,
    *,
    over: str = "n",
    of: What = "work",
    m: int | None = None,
    batch: int = 1,
) -> Crossover:
    """The length at which ``second`` becomes cheaper than ``first``; without it, n² terms overtake the rest of a layer.

    ``clearhead.crossover`` has the same arguments, and takes names of recipes too.
    """
    if over not in ("n", "m"):
        raise _wrong(f"crossover over {over}", "must be n or m")
    if of not in get_args(What):
        raise _wrong(f"crossover of {of}", f"must be {', '.join(get_args(What))}")
    fixed = {"B": batch} | ({} if m is None or over == "m" else {"m": m})
    if second is None:
        if of != "work":
            raise _wrong(f"crossover of {of}", "with one recipe the work of a layer is compared: name a second recipe")
        return quadratic_against_rest(first, over=over, **fixed)
    names = first.title, second.title
    if names[0] == names[1]:
        if first.recipe == second.recipe:
            raise _wrong(names[1], "is compared with itself")
        names = f"{names[0]}, the first", f"{names[1]}, the second"
    return compare(first, second, what=of, names=names, over=over, **fixed)


def _wrong(key: str, message: str) -> RecipeError:
    return RecipeError([Problem("", key, message)])
