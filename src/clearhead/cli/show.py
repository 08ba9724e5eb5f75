"""``clearhead show``: a model's blocks with their shapes, and a line that runs through them."""

from pathlib import Path
from typing import Annotated

import typer

from clearhead.errors import Problem, RecipeError


def show(
    recipe: Annotated[
        str, typer.Argument(help="A preset, a recipe file (TOML), a model file (.safetensors), or the first change.")
    ],
    overrides: Annotated[list[str] | None, typer.Argument(help="Changes to the recipe: section.key=value.")] = None,
    line: Annotated[
        str, typer.Option(help="The text to run through the model, byte by byte; for images, pixel by pixel.")
    ] = "Attention is all you need.",
) -> None:
    """Build a model, run a line through it, and print every block with its settings and the shape that comes out.

    Shapes are batch × tokens × features; blocks that share their weights with an earlier one are marked.
    """
    changes = overrides or []
    if "=" in recipe and not Path(recipe).exists():  # nothing but changes: they change the defaults
        changes, source = [recipe, *changes], None
    else:
        source = recipe
    is_file = Path(recipe).suffix == ".safetensors"
    if is_file and changes:
        raise RecipeError([Problem("command line", changes[0], "a trained model cannot be changed by overrides")])
    from clearhead.recipe import read_recipe

    # read before torch is imported, so that a mistake is told at once
    read = None if is_file else read_recipe(source, *changes)

    from clearhead.cli.blocks import print_blocks
    from clearhead.models import build, load_model

    print_blocks(load_model(recipe).model if read is None else build(read, seed=1), recipe, line)
