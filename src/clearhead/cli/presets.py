"""``clearhead presets``: what there is to start from."""

from typing import Annotated

import typer


def presets(
    name: Annotated[str | None, typer.Argument(help="Show this preset as a recipe file.")] = None,
    kinds: Annotated[
        bool,
        typer.Option("--kinds", help="List what a recipe can name: attentions, positions, nets, norms, families."),
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="With NAME: every setting, also those left at their default.")
    ] = False,
) -> None:
    """List the presets, one line each; with a name, print it as TOML to copy and change.

    clearhead presets gpt2 > mine.toml
    """
    from clearhead import recipe

    if kinds:
        for slot in recipe.slots():
            typer.secho(slot, bold=True)
            for kind, entry in recipe.kinds(slot).items():
                typer.echo(f"  {kind:<12} {_first_line(entry.spec.__doc__)}")
    elif name is None:
        for preset in recipe.preset_names():
            typer.echo(f"{preset:<18} {_first_line(recipe.preset_text(preset)).lstrip('# ')}")
    else:
        text = recipe.preset_text(name)
        typer.echo(recipe.recipe_toml(recipe.read_recipe(name)) if full else text, nl=False)


def _first_line(text: str | None) -> str:
    return (text or "").strip().splitlines()[0]
