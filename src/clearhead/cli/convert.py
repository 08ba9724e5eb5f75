"""``clearhead import``: a Hugging Face folder becomes a model file."""

from pathlib import Path
from typing import Annotated

import typer


def convert(
    folder: Annotated[Path, typer.Argument(help="A folder with config.json and model.safetensors.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The model file to write (.safetensors).")],
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="An unknown setting of config.json that changes nothing; may be repeated."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> None:
    """Make a model file of a Hugging Face folder: Marian, BART, BERT, RoBERTa, DeBERTa, GPT-2, Bloom, T5, ViT and kin.

    Heads for masked tokens and for classes are kept, with the names of the classes. What is left behind (heads of other
    tasks, notes in config.json) is named; a setting that clearhead does not know, or a weight that has no place, is
    refused.
    """
    from clearhead.errors import ClearheadError
    from clearhead.interop import import_huggingface
    from clearhead.models import count_parameters, save_model

    if output.suffix != ".safetensors":
        raise ClearheadError(f"-o {output}: a model file is called something.safetensors")
    if not output.parent.is_dir():
        raise ClearheadError(f"-o {output}: the folder {output.parent} does not exist")
    if output.exists() and not force:
        raise ClearheadError(f"{output}: exists already; add --force to replace it")
    imported = import_huggingface(folder, ignore=ignore or [])
    saved = imported.saved
    try:
        save_model(saved, output)
    except OSError as error:
        raise ClearheadError(f"{output}: cannot be written: {error.strerror}") from None
    kept = "with its tokenizer" if saved.tokenizers else "without a tokenizer (the folder has no tokenizer.json)"
    typer.echo(f"{output}: {saved.recipe.model.family}, {count_parameters(saved.model):,} parameters, {kept}")
    for what in imported.left_behind:
        typer.echo(f"left behind: {what}")
