"""``clearhead presets``: what there is to start from."""

import shutil
import sys
import textwrap
from typing import Annotated

import typer

import clearhead


def presets(
    name: Annotated[
        str | None, typer.Argument(help="Show this preset as a recipe file, or the card of this model.")
    ] = None,
    kinds: Annotated[
        bool,
        typer.Option("--kinds", help="List what a recipe can name: attentions, positions, nets, norms, families."),
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="With NAME: every setting, also those left at their default.")
    ] = False,
) -> None:
    """List the presets, and the trained models that come with clearhead; with a name, print it, or a model's card.

    A preset is printed as TOML, to copy and change.

    clearhead presets gpt2 > mine.toml

    clearhead presets g2p-en
    """
    if kinds and (name or full):
        raise typer.BadParameter("--kinds stands alone")
    if full and name is None:
        raise typer.BadParameter("--full needs the name of a preset")
    if kinds:
        for slot in clearhead.slots():
            typer.secho(slot, bold=True)
            for kind, entry in clearhead.kinds(slot).items():
                _line(f"  {kind:<14} ", _first_line(entry.spec.__doc__))
    elif name is None:
        for preset in clearhead.preset_names():
            _line(f"{preset:<18} ", _first_line(clearhead.preset_text(preset)).lstrip("# "))
        for model in clearhead.shipped_names():
            _line(f"{model:<18} ", f"Trained: {_first_line(clearhead.model_card(model)).lstrip('# ')}")
    elif name in clearhead.shipped_names() and not full:
        typer.echo(clearhead.model_card(name), nl=False)
    else:
        text = clearhead.preset_text(name)
        typer.echo(clearhead.recipe_toml(clearhead.read_recipe(name)) if full else text, nl=False)


def _first_line(text: str | None) -> str:
    return (text or "").strip().splitlines()[0]


def _line(label: str, text: str) -> None:
    """A label and its text, wrapped beside it on a terminal."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 10_000
    typer.echo(textwrap.fill(text, max(width, 40), initial_indent=label, subsequent_indent=" " * len(label)))
