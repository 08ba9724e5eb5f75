"""A recipe as TOML: what a run folder keeps, and what `clearhead presets NAME` shows."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from clearhead.recipe.model import Recipe


def recipe_table(recipe: Recipe) -> dict[str, Any]:
    """The recipe as a nested table, complete; settings that have no value are left out."""
    return _pruned(recipe.model_dump(mode="json"))


def _pruned(table: Mapping[str, Any]) -> dict[str, Any]:
    pruned = {name: _pruned(value) if isinstance(value, Mapping) else value for name, value in table.items()}
    return {name: value for name, value in pruned.items() if value is not None}


def recipe_toml(recipe: Recipe) -> str:
    """The recipe as TOML text, which reads back as the same recipe."""
    return "\n".join(_lines(recipe_table(recipe), ())).strip() + "\n"


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    leaves = {name: value for name, value in table.items() if not isinstance(value, Mapping)}
    if leaves and path:
        yield f"\n[{'.'.join(path)}]"
    for name, value in leaves.items():
        # TOML's strings, numbers and booleans are JSON's, but for one character
        text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        yield f"{name} = {text}"
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _lines(value, (*path, name))
