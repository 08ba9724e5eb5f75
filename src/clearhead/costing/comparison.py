"""Two recipes' costs side by side, by the closed forms: nothing is built."""

from typing import NamedTuple

from clearhead.costing.forms.bill import ModelFormulas
from clearhead.costing.forms.lengths import position_limits
from clearhead.costing.forms.summary import LINES
from clearhead.costing.model import cost
from clearhead.recipe import Recipe

COMPARED = {
    "parameters": "parameters",
    "macs": "forward, MACs",
    "training_macs": "training step, MACs",
    "step_macs": "decoding step, MACs",
    "weight_bytes": "weights, bytes",
    "saved_bytes": "activations, bytes",
    "saved_bytes_fused": "activations, fused, bytes",
}
LENGTH = 128
"""Tokens of source and target, unless a table of positions holds fewer."""


class Compared(NamedTuple):
    """One number of both."""

    key: str
    title: str
    first: int | None
    """None if this model has no such number."""
    second: int | None


def side_by_side(first: Recipe, second: Recipe) -> tuple[int, list[Compared]]:
    """The length at which costs are compared, B = 1, and the numbers of both."""
    length = min([LENGTH, *position_limits(first).values(), *position_limits(second).values()])
    costs = [cost(recipe) for recipe in (first, second)]
    rows = [Compared(key, title, *(_number(one, key, length) for one in costs)) for key, title in COMPARED.items()]
    return length, [row for row in rows if row.first is not None or row.second is not None]


def _number(of: ModelFormulas, key: str, length: int) -> int | None:
    line = next(line for line in LINES if line.key == key)
    if line.writers and not of.writes:
        return None
    return int(line.of(of).at(n=length, m=length, t=length, B=1))
