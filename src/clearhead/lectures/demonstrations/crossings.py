"""Layers of attention and recurrence side by side (L2.3, L4.5): what each multiplies, and where two cost the same.

The products of the modules themselves are counted; the formulas are those of ``clearhead.costing``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import sympy
import torch
from sympy import Expr
from torch import Tensor, nn

from clearhead.attention import MultiHeadAttention
from clearhead.blocks import Recurrence
from clearhead.costing import letter, recurrent_layer, self_attention_layer
from clearhead.costing.tracing import counted_macs
from clearhead.drawing.figure import Lines, Series
from clearhead.lectures.demonstrations.compare import written
from clearhead.lectures.demonstrations.sequential import EXPLICIT
from clearhead.lectures.evidence import EvidenceTable, Measure

n, d = letter("n"), letter("d")
FORMULAS: dict[str, Expr] = {
    "attention alone": self_attention_layer(n, d).mixing,
    "attention": self_attention_layer(n, d).macs,
    "Elman": recurrent_layer(n, d).macs,
    "GRU": recurrent_layer(n, d, gates=3).macs,
    "LSTM": recurrent_layer(n, d, gates=4).macs,
}
"""Multiply-accumulates of a layer; ``attention alone`` has no projections."""


def layer(name: str, width: int) -> nn.Module:
    """The product's module."""
    if name in ("Elman", "GRU", "LSTM"):
        return Recurrence(cell=name.lower(), inputs=width, state=width)  # type: ignore[arg-type]
    whole = name == "attention"
    module = MultiHeadAttention(width=width, heads=1, projections=whole, output=whole, bias=False)
    module.path = "explicit"
    return module


def counted(name: str, length: int, width: int) -> int:
    """The multiply-accumulates of this layer on one sequence, counted as it runs."""
    module, x = layer(name, width), torch.randn(1, length, width)
    with torch.no_grad():
        return counted_macs(lambda: module(x))


def crossing(one: str, other: str) -> Expr | None:
    """The length at which the first overtakes the second; None if it is more expensive at every length."""
    roots = [root for root in sympy.solve(FORMULAS[one] - FORMULAS[other], n) if root.is_positive]
    return roots[0] if roots else None


def crossing_measures(one: str, other: str, width: int) -> list[Measure]:
    """Where two layers cost the same, solved and counted: one is cheaper a token before and the other a token after."""
    at = crossing(one, other)
    name = f"{one} against {other}"
    if at is None:
        lengths = (1, 2, width, 4 * width)
        cheaper = sum(counted(one, length, width) < counted(other, length, width) for length in lengths)
        return [Measure(f"{name}: lengths of {lengths} at which it multiplies less, counted", 0, cheaper)]
    where = int(at.subs(d, width))
    signs = [
        _sign(counted(one, length, width) - counted(other, length, width)) for length in range(where - 1, where + 2)
    ]
    return [
        Measure(
            f"{name}: less before n = {written(at)}, the same there, more after; counted at d = {width}",
            "−, 0, +",
            ", ".join(signs),
        )
    ]


def _sign(difference: int) -> str:
    return "0" if difference == 0 else "−" if difference < 0 else "+"


def scores_twice(right: Any) -> Any:
    """What breaks ``EXPLICIT``: every score is computed twice."""

    def explicit(method: Any, query: Tensor, keys: Tensor, values: Tensor, context: Any) -> Tensor:
        method.score(query, keys)
        out: Tensor = right(method, query, keys, values, context)
        return out

    return explicit


def inputs_twice(right: Any) -> Any:
    """What breaks ``Recurrence.forward``: the input goes through its map twice."""

    def forward(self: Recurrence, x: Tensor, *state: Any) -> Any:
        self.gates(x)
        return right(self, x, *state)

    return forward


RECURRENCE = "clearhead.blocks.recurrence.Recurrence.forward"


def table_over_length(lengths: Sequence[int], width: int, work: Mapping[str, Sequence[int]]) -> EvidenceTable:
    """The multiplications of every layer, a row for each length."""
    rows = tuple((length, *(row[place] for row in work.values())) for place, length in enumerate(lengths))
    return EvidenceTable(f"Multiplications counted, d = {width}", ("n", *work), rows)


def figure_over_length(lengths: Sequence[int], work: Mapping[str, Sequence[int]], *, title: str, alt: str) -> Lines:
    """The same as lines, on logarithmic axes."""
    x = tuple(map(float, lengths))
    return Lines(
        title=title,
        alt=alt,
        x_label="tokens n",
        y_label="multiplications",
        log_x=True,
        log_y=True,
        series=tuple(Series(name, x, tuple(map(float, row))) for name, row in work.items()),
    )


__all__ = [
    "EXPLICIT",
    "FORMULAS",
    "RECURRENCE",
    "counted",
    "crossing",
    "crossing_measures",
    "figure_over_length",
    "inputs_twice",
    "layer",
    "scores_twice",
    "table_over_length",
]
