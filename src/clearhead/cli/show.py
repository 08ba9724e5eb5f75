"""``clearhead show``: a model's blocks with their shapes, and what sets two recipes apart."""

import json
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand

import clearhead
from clearhead.cli.words import is_setting

OPTION = "--against"


class AgainstCommand(TyperCommand):
    """A command in which all words after ``--against`` belong to it: ``--against B section.key=value …``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the option before each of its words, which is how the parser takes several."""
        given: list[str] = []
        after = False
        for word in args:
            if word == OPTION:
                after = True
            elif word.startswith(f"{OPTION}="):
                after = True
                given += [OPTION, word.removeprefix(f"{OPTION}=")]
            elif after and (not word.startswith("-") or word == "-"):
                given += [OPTION, word]
            else:
                given.append(word)
        if after and OPTION not in given:
            raise typer.BadParameter(f"{OPTION} needs a recipe: {OPTION} small model.width=64")
        return super().parse_args(ctx, given)


def show(
    recipe: Annotated[
        str,
        typer.Argument(help="A preset, recipe, model file, run or Hugging Face folder, or the first change."),
    ],
    overrides: Annotated[list[str] | None, typer.Argument(help="Changes to the recipe: section.key=value.")] = None,
    line: Annotated[
        str, typer.Option(help="The text to run through the model, byte by byte; for images, pixel by pixel.")
    ] = "Attention is all you need.",
    against: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RECIPE [KEY=VALUE …]",
            help="Instead: how this recipe, with the changes after it, differs from the first: settings and costs.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="With --against: print JSON.")] = False,
) -> None:
    """Build a model, run a line through it, and print every block with its settings and the shape that comes out.

    clearhead show tiny model.attention.kind=disentangled --against tiny model.position.kind=rope

    Shapes are batch × tokens × features; blocks that share their weights with an earlier one are marked. What a setting
    brings along is said first: `model.attention.kind=disentangled` means self-attention only, without other positions.
    """
    words = [recipe, *(overrides or [])]
    if against:
        _print_comparison(words, against, as_json=as_json)
        return
    if as_json:
        raise typer.BadParameter("--json is for --against")
    source, changes = _split(words)
    _print_tree(clearhead.show(source, line=line, settings=changes))


def _split(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """A recipe and its changes; or changes alone, to the defaults."""
    return (None, list(words)) if is_setting(words[0]) else (words[0], list(words[1:]))


def _print_tree(shown: "clearhead.BlockTree") -> None:
    for note in shown.notes:
        typer.echo(note)
    table = Table(title=Text(shown.title), box=None, expand=False, title_justify="left")
    table.add_column("block", no_wrap=True)
    table.add_column("what it is", style="dim", overflow="fold")
    table.add_column("parameters", justify="right", no_wrap=True)
    table.add_column("shape out", justify="right", no_wrap=True)
    for depth, block in shown.walk():
        table.add_row(Text("  " * depth + block.name), Text(block.kind), block.weights, block.shape_out)
    console = Console()
    # numbers are never cut: a terminal that is too narrow scrolls
    console.print(table, width=max(console.width, 72) if console.is_terminal else max(console.width, 100))


def _print_comparison(first: Sequence[str], second: Sequence[str], *, as_json: bool) -> None:
    """Print the differences of two recipes and their costs, as tables or as JSON."""
    (left, changes), (right, others) = _split(first), _split(second)
    found = clearhead.compare_recipes(left, right, first_settings=changes, second_settings=others)
    names = " ".join(first), " ".join(second)
    if as_json:
        print(json.dumps({"recipes": list(names)} | found.table(), ensure_ascii=False))
        return
    console = Console(highlight=False)
    width = console.width if console.is_terminal else max(console.width, 80)
    for letter, name, notes in zip("AB", names, found.notes, strict=True):
        console.print(f"{letter}  {name}", markup=False, width=width)
        for note in notes:
            console.print(Padding(Text(note, style="dim"), (0, 0, 0, 3)), width=width)
    console.print()
    console.print(_settings(found.differences) if found.differences else "the recipes are the same", width=width)
    console.print()
    console.print(_costs(found.costs), width=width)
    lengths = f"sources and targets of {found.length} tokens, one at a time; `clearhead cost` has formulas"
    console.print(lengths, style="dim", markup=False, width=width)
    sys.stdout.flush()


def _settings(found: "Sequence[clearhead.Difference]") -> Table:
    table = Table("setting", "A", "B", box=None, pad_edge=False, header_style="bold")
    table.columns[0].no_wrap = True
    for column in table.columns[1:]:
        column.overflow = "fold"
    for setting, left, right in found:
        table.add_row(Text(setting.removeprefix("model.")), Text(_value(left)), Text(_value(right)))
    return table


def _costs(costs: "Sequence[clearhead.Compared]") -> Table:
    table = Table("cost", box=None, pad_edge=False, header_style="bold")
    for name in ("A", "B", "B − A"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in costs:
        table.add_row(row.title, *("–" if number is None else f"{number:,}" for number in row[2:]), _change(row))
    return table


def _change(row: "clearhead.Compared") -> str:
    if not row.first or row.second is None:
        return ""
    share = 100 * (row.second - row.first) / row.first
    return f"{share:+.1f} %" if abs(share) < 1000 else f"× {row.second / row.first:,.0f}"


def _value(value: Any) -> str:
    return "–" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
