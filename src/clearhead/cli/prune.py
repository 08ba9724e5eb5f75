"""``clearhead prune``: a smaller model without its least important heads."""

import json
from pathlib import Path
from typing import Annotated

import typer

import clearhead
from clearhead.cli.progress import TerminalReport
from clearhead.cli.words import columns_of, files_and_settings, parallel, usage


def prune(
    model: Annotated[str, typer.Argument(help="A model file, a run folder, or a Hugging Face folder.")],
    heads: Annotated[
        str,
        typer.Option(
            metavar="N|NAMES",
            help="How many heads to remove, or which (STACK.LAYER.HEAD): 8, or cross.2.5,encoder.1.3.",
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The model file to write (.safetensors).")],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DATA]",
            help="A file like the training data, but not the training data itself; then decoding.key=value …",
        ),
    ] = None,
    src: Annotated[Path | None, typer.Option(help="Source lines, parallel to --tgt.")] = None,
    tgt: Annotated[Path | None, typer.Option(help="Target lines.")] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Columns of the file: names of its header or JSON fields, or numbers: 1,3."),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keeps what is done; the same command continues after an interruption."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what changed as JSON.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> None:
    """Remove the heads that matter least, for real: W_Q, W_K, W_V and W_O get smaller.

    Every head is switched off in turn on DATA; its importance is by how much the loss per token rises. The least
    important ones are removed, and the model is scored on DATA before and after. Each attention keeps one head or more.
    Importance is measured one head at a time: removing many at once can cost more than the sum, which the scores show.

    The smaller file is a model like any other: `run`, `eval`, `cost` and `prune` take it. Its recipe names the heads
    that each layer keeps (model.encoder.attention.kept). What remains computes exactly what the whole model computes
    with the other heads switched off.

    Axial attention, and attention without W_O or without projections, cannot lose heads; the reason is printed.

    clearhead prune runs/demo dev.tsv --heads 8 -o smaller.safetensors

    clearhead prune runs/demo dev.tsv --heads cross.2.5,encoder.1.3 -o smaller.safetensors
    """
    files, settings = files_and_settings(words)
    both = parallel(src, tgt)
    if len(files) + (both is not None) != 1:
        raise usage("prune", "name the data that heads are judged on: a file, or --src and --tgt")
    with TerminalReport(bar=True) as report:
        pruned = clearhead.prune(
            model,
            files[0] if both is None else both,
            output,
            heads=_heads(heads),
            columns=columns_of(columns),
            resume=resume,
            force=force,
            report=report,
            settings=settings,
        )
    if as_json:
        print(json.dumps(pruned.as_dict()))
    else:
        print(pruned)
        print(f"{output}: written")


def _heads(text: str) -> int | list[str]:
    """A number, or names between commas."""
    if text.strip().isdecimal() and int(text):
        return int(text)
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names or any(name.lstrip("-").isdecimal() for name in names):
        raise usage("prune", f"--heads {text}: give a number above 0, or names as cross.2.5,encoder.1.3")
    return names
