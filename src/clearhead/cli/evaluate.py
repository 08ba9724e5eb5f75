"""``clearhead eval``: how good a model is."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def evaluate(
    model: Annotated[Path, typer.Argument(help="A model file, or a run folder.")],
    data: Annotated[Path | None, typer.Argument(help="A file of pairs (.tsv, .jsonl, also .gz).")] = None,
    src: Annotated[Path | None, typer.Option(help="Source lines, parallel to --tgt.")] = None,
    tgt: Annotated[Path | None, typer.Option(help="Target lines.")] = None,
    split: Annotated[
        Literal["dev", "test"] | None, typer.Option(help="For a run folder: its own dev or test pairs.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON.")] = False,
) -> None:
    """Score a model's answers: line_error, symbol_error, BLEU, chrF, TER, with 95 % intervals; percentages.

    line_error is the share of sources whose answer equals none of their references; symbol_error is the edit distance
    to the closest reference over its length. Several pairs with one source are several references.
    """
    from clearhead.cli.scoring import score_model

    score_model(model, data, (src, tgt), split, as_json=as_json)
