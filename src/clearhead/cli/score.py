"""``clearhead score``: how probable given answers are."""

from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.words import check_model_and_data, columns_setting, files_and_settings, parallel_files
from clearhead.errors import DataError


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
    as_json: Annotated[bool, typer.Option("--json", help="Print the example and log p of each token.")] = False,
) -> None:
    """Print log p(target | source) of each pair, the end of the target included: one number a line, in order.

    For a language model log p of each line, its end included; for a classifier log p(label | text).

    clearhead score runs/demo pairs.tsv
    """
    files, settings = files_and_settings(words)
    parallel = parallel_files(src, tgt)
    if len(files) + bool(parallel) != 1:
        raise DataError("name what to score: a file, or --src and --tgt")
    check_model_and_data(model, [*files, *parallel])

    from clearhead.cli.running import score_examples

    settings += columns_setting(columns)
    score_examples(model, str(files[0]) if files else parallel, settings, as_json=as_json)
