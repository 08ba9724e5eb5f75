"""``clearhead eval``: how good a model is."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from clearhead.cli.words import check_model_and_data, columns_setting, files_and_settings, parallel_files
from clearhead.errors import DataError


def evaluate(
    model: Annotated[str, typer.Argument(help="A model file, a run folder, or a Hugging Face folder.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DATA]", help="A file such as the model was trained on (also .gz), or -; then decoding.key=value …"
        ),
    ] = None,
    src: Annotated[Path | None, typer.Option(help="Source lines, parallel to --tgt.")] = None,
    tgt: Annotated[Path | None, typer.Option(help="Target lines.")] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Columns of the file: names of its header or JSON fields, or numbers: 1,3."),
    ] = None,
    split: Annotated[
        Literal["dev", "test"] | None, typer.Option(help="For a run folder: its own dev or test data.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON.")] = False,
) -> None:
    """Score a model's answers: line_error, symbol_error, BLEU, chrF, TER, with 95 % intervals; percentages.

    line_error is the share of sources whose answer equals none of their references; symbol_error is the edit distance
    to the closest reference over its length. Several pairs with one source are several references.

    A language model is scored on lines of text: perplexity by token, the end of each line among them, and the share of
    tokens that are the most probable ones; an encoder the same on hidden tokens, which follow from the line. A
    classifier is scored on `label<TAB>text`: accuracy, and macro_f1, the mean F1 of its classes.

    Lines that are no examples are refused with their numbers; data.bad_lines=skip leaves them out and counts them.

    clearhead eval runs/demo --split test

    clearhead eval runs/demo pairs.tsv decoding.beam_size=1
    """
    files, settings = files_and_settings(words)
    parallel = parallel_files(src, tgt)
    if split is not None and not Path(model).is_dir():
        raise DataError(f"--split {split}: {model} is no run folder")
    if len(files) + bool(parallel) + (split is not None) != 1:
        raise DataError("name what to score on: a file, --src and --tgt, or, for a run folder, --split dev or test")
    check_model_and_data(model, [*files, *parallel])

    from clearhead.cli.scoring import score_model

    settings += columns_setting(columns)
    score_model(model, str(files[0]) if files else parallel or None, split, settings, as_json=as_json)
