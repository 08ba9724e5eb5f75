"""Two recipes' costs side by side, by the closed forms: nothing is built."""

from typing import NamedTuple

from clearhead.costing.forms.bill import ModelCost, cost
from clearhead.costing.forms.summary import LINES
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
    length = min(LENGTH, _reach(first), _reach(second))
    costs = [cost(recipe) for recipe in (first, second)]
    rows = [Compared(key, title, *(_number(one, key, length) for one in costs)) for key, title in COMPARED.items()]
    return length, [row for row in rows if row.first is not None or row.second is not None]


def _number(of: ModelCost, key: str, length: int) -> int | None:
    line = next(line for line in LINES if line.key == key)
    if line.writers and not of.writes:
        return None
    return int(line.of(of).at(n=length, m=length, t=length, B=1))


def _reach(recipe: Recipe) -> int:
    """Tokens that the model's tables of positions hold."""
    parts = [getattr(recipe.model, name, None) for name in ("encoder", "decoder")]
    sizes = [getattr(getattr(part, "position", None), "size", None) for part in parts]
    return min((size for size in sizes if isinstance(size, int)), default=LENGTH)
