"""``clearhead merge``: adapters and the model that they were trained for become one model file."""

from pathlib import Path
from typing import Annotated

import typer

import clearhead


def merge(
    base: Annotated[str, typer.Argument(help="The model that was tuned: a run, a model file, a Hugging Face folder.")],
    adapters: Annotated[Path, typer.Argument(help="adapters.safetensors, or the run that wrote it.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The model file to write (.safetensors).")],
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> None:
    """Merge adapters into their base. A run with training.adapters does so itself: its best model is merged.

    clearhead merge runs/g2p adapters.safetensors -o tuned.safetensors

    Adapters are small, and one base serves many of them. They know the fingerprint of their base: no other is taken.
    """
    saved = clearhead.merge_adapters(base, adapters, output, force=force)
    typer.echo(f"{output}: {saved.recipe.model.family}, {clearhead.count_parameters(saved.model):,} parameters")
