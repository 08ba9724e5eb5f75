"""``clearhead show A --against B``: what sets two recipes apart, and what each of them costs. Never imports torch."""

import json
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from clearhead.cli.names import recipe_named
from clearhead.costing import Compared, side_by_side
from clearhead.files import exists
from clearhead.recipe import Difference, Recipe, differences, notes_of


def _recipe(words: Sequence[str]) -> Recipe:
    """A recipe by any name that it has, with changes; or changes alone, to the defaults."""
    changes_alone = "=" in words[0] and not exists(words[0])
    return recipe_named(None, *words) if changes_alone else recipe_named(*words)


def print_against(first: Sequence[str], second: Sequence[str], *, as_json: bool) -> None:
    """Print the differences of two recipes and their costs, as tables or as JSON."""
    recipes = _recipe(first), _recipe(second)
    found = differences(*recipes)
    length, costs = side_by_side(*recipes)
    names = " ".join(first), " ".join(second)
    notes = [notes_of(recipe) for recipe in recipes]
    if as_json:
        print(json.dumps(_json(names, found, length, costs, notes), ensure_ascii=False))
        return
    console = Console(highlight=False)
    width = console.width if console.is_terminal else max(console.width, 80)
    for letter, name, said in zip("AB", names, notes, strict=True):
        console.print(f"{letter}  {name}", markup=False, width=width)
        for note in said:
            console.print(Padding(Text(note, style="dim"), (0, 0, 0, 3)), width=width)
    console.print()
    console.print(_settings(found) if found else "the recipes are the same", width=width)
    console.print()
    console.print(_costs(costs), width=width)
    lengths = f"sources and targets of {length} tokens, one at a time; `clearhead cost` has formulas"
    console.print(lengths, style="dim", markup=False, width=width)
    sys.stdout.flush()


def _settings(found: list[Difference]) -> Table:
    table = Table("setting", "A", "B", box=None, pad_edge=False, header_style="bold")
    table.columns[0].no_wrap = True
    for column in table.columns[1:]:
        column.overflow = "fold"
    for setting, left, right in found:
        table.add_row(Text(setting.removeprefix("model.")), Text(_value(left)), Text(_value(right)))
    return table


def _costs(costs: list[Compared]) -> Table:
    table = Table("cost", box=None, pad_edge=False, header_style="bold")
    for name in ("A", "B", "B − A"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in costs:
        table.add_row(row.title, *("–" if number is None else f"{number:,}" for number in row[2:]), _change(row))
    return table


def _change(row: Compared) -> str:
    if not row.first or row.second is None:
        return ""
    share = 100 * (row.second - row.first) / row.first
    return f"{share:+.1f} %" if abs(share) < 1000 else f"× {row.second / row.first:,.0f}"


def _value(value: Any) -> str:
    return "–" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _json(
    names: tuple[str, str], found: list[Difference], length: int, costs: list[Compared], notes: list[list[str]]
) -> dict[str, Any]:
    return {
        "recipes": list(names),
        "differences": [{"setting": one.setting, "values": [one.first, one.second]} for one in found],
        "at": {"n": length, "m": length, "B": 1},
        "costs": {row.key: [row.first, row.second] for row in costs},
        "notes": notes,
    }
