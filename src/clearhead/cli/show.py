"""``clearhead show``: a model's blocks with their shapes, and a line that runs through them."""

from typing import Annotated

import typer


def show(
    recipe: Annotated[str, typer.Argument(help="A preset, a recipe file (TOML), or a model file.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Changes to the recipe: section.key=value.")] = None,
    line: Annotated[
        str, typer.Option(help="The text to run through the model, as bytes.")
    ] = "Attention is all you need.",
    seed: Annotated[int, typer.Option(help="Seed of the random weights.")] = 1,
) -> None:
    """Build a model, run a line through it, and print every block with the shape that comes out of it.

    Shapes are batch × tokens × features. The weights are random unless a model file is given.
    """
    from clearhead.cli.blocks import print_blocks

    print_blocks(recipe, overrides or [], line, seed)
