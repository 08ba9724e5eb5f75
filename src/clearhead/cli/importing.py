"""``clearhead import``: a Hugging Face folder becomes a model file."""

from pathlib import Path
from typing import Annotated

import typer

import clearhead


def convert(
    folder: Annotated[Path, typer.Argument(help="A folder with config.json and model.safetensors.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The model file to write (.safetensors).")],
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="An unknown setting of config.json that changes nothing; may be repeated."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> None:
    """Make a model file of a Hugging Face folder: Llama, Mistral, Qwen, Gemma, Phi, GPT-2, BERT, BART, T5, ViT and kin.

    The tokenizer comes along (tokenizer.json, vocab and merges, SentencePiece), and so do settings of generate (beams,
    lengths, forced and banned tokens), languages, and how a sentence-transformers model pools its vectors. Heads for
    masked tokens and for classes are kept, with the names of the classes. What is left behind (heads of other tasks,
    notes in config.json, a tokenizer that cannot be read) is named; a setting that clearhead does not know, or a weight
    that has no place, is refused.

    clearhead import opus-mt-en-de -o en-de.safetensors

    echo 'How are you?' | clearhead run en-de.safetensors
    """
    imported = clearhead.import_model(folder, output, ignore=ignore or [], force=force)
    saved = imported.saved
    kept = "with its tokenizer" if saved.tokenizers else "without a tokenizer"
    parameters = clearhead.count_parameters(saved.model)
    typer.echo(f"{output}: {saved.recipe.model.family}, {parameters:,} parameters, {kept}")
    for what in imported.left_behind:
        typer.echo(f"left behind: {what}")
