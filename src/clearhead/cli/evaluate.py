"""``clearhead eval``: how good a model is."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def evaluate(
    model: Annotated[Path, typer.Argument(help="A model file, or a run folder.")],
    data: Annotated[Path | None, typer.Argument(help="A file such as the model was trained on (also .gz).")] = None,
    src: Annotated[Path | None, typer.Option(help="Source lines, parallel to --tgt.")] = None,
    tgt: Annotated[Path | None, typer.Option(help="Target lines.")] = None,
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
    """
    from clearhead.cli.scoring import score_model

    score_model(model, data, (src, tgt), split, as_json=as_json)
