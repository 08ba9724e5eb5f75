"""What sets two recipes apart, setting by setting."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from clearhead.recipe.model import Recipe
from clearhead.recipe.writing import recipe_table

_PARTS = ("encoder", "decoder", "cross")


class Difference(NamedTuple):
    """A setting that is not the same; None where a recipe does not have it."""

    setting: str
    first: Any
    second: Any


def differences(first: Recipe, second: Recipe) -> list[Difference]:
    """Settings that differ, in the order of a recipe; what differs alike in several parts is named once."""
    left, right = (dict(_leaves(recipe_table(recipe))) for recipe in (first, second))
    names = [*left, *(name for name in right if name not in left)]
    different = [name for name in names if left.get(name) != right.get(name)]
    found: dict[tuple[Any, ...], list[str]] = {}
    for name in different:
        section, part, rest = (*name.split(".", 2), "", "")[:3]
        shared = rest if section == "model" and part in _PARTS and rest else None
        values = (repr(left.get(name)), repr(right.get(name)))
        found.setdefault((shared, *values) if shared else (name,), []).append(name)
    return [Difference(_together(alike), left.get(alike[0]), right.get(alike[0])) for alike in found.values()]


def _together(names: list[str]) -> str:
    """``model.{encoder,decoder}.layers`` for both."""
    if len(names) == 1:
        return names[0]
    parts = ",".join(name.split(".", 2)[1] for name in names)
    return f"model.{{{parts}}}.{names[0].split('.', 2)[2]}"


def _leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
