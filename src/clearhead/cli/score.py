"""``clearhead score``: how probable given answers are."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

import clearhead
from clearhead.cli.progress import TerminalReport
from clearhead.cli.words import Device, columns_of, files_and_settings, parallel, usage


def score(
    model: Annotated[str, typer.Argument(help="A model file, a run folder, or a Hugging Face folder.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DATA]", help="A file such as the model was trained on, or -; then decoding.key=value …"
        ),
    ] = None,
    src: Annotated[Path | None, typer.Option(help="Source lines, parallel to --tgt.")] = None,
    tgt: Annotated[Path | None, typer.Option(help="Target lines.")] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Columns of the file: names of its header or JSON fields, or numbers: 1,3."),
    ] = None,
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print the example and log p of each token.")] = False,
) -> None:
    """Print log p(target | source) of each pair, the end of the target included: one number a line, in order.

    For a language model log p of each line, its end included; for a classifier log p(label | text).

    clearhead score runs/demo pairs.tsv
    """
    files, settings = files_and_settings(words)
    both = parallel(src, tgt)
    if len(files) + (both is not None) != 1:
        raise usage("score", "name what to score: a file, or --src and --tgt")
    with TerminalReport() as report:
        data = files[0] if both is None else both
        asked: dict[str, Any] = {"columns": columns_of(columns), "device": device, "settings": settings}
        for line in clearhead.score(model, data, report=report, **asked):
            if as_json:
                table = {**line.columns, "log_probability": line.log_probability, "tokens": line.tokens}
                print(json.dumps(table, ensure_ascii=False))
            else:
                print(f"{line.log_probability:.6f}")
