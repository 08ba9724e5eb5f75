"""``clearhead show``: a model's blocks with their shapes, and a line that runs through them."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from clearhead.cli.names import recipe_named
from clearhead.errors import Problem, RecipeError
from clearhead.files import exists

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
    changes = overrides or []
    if against:
        from clearhead.cli.against import print_against

        print_against([recipe, *changes], against, as_json=as_json)
        return
    if as_json:
        raise typer.BadParameter("--json is for --against")
    if "=" in recipe and not exists(recipe):  # nothing but changes: they change the defaults
        changes, source = [recipe, *changes], None
    else:
        source = recipe
    from clearhead.recipe import named, notes_of

    is_file = source is not None and (Path(recipe).suffix == ".safetensors" or named(recipe) == "model")
    if is_file and changes:
        raise RecipeError([Problem("command line", changes[0], "a trained model cannot be changed by overrides")])
    # read before torch is imported, so that a mistake is told at once
    read = None if is_file else recipe_named(source, *changes)

    from clearhead.cli.blocks import print_blocks
    from clearhead.models import SavedModel, build, load_model

    shown = load_model(recipe) if read is None else SavedModel(build(read, seed=1), read)
    for note in notes_of(shown.recipe):
        typer.echo(note)
    print_blocks(shown.model, recipe, line)
