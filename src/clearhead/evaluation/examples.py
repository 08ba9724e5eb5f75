"""Examples to score a model on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from clearhead.data import Skipped, Where, format_of, shown
from clearhead.errors import DataError
from clearhead.predictor import Predictor


@dataclass(frozen=True)
class Found:
    """The examples of some files."""

    examples: list[Any]
    skipped: Skipped
    """What was left out."""
    notes: list[str]
    """What was decided about the files: a header, columns by name."""


def read_examples(
    predictor: Predictor,
    where: Where,
    *,
    bad_lines: Literal["refuse", "skip"] = "refuse",
    columns: Sequence[str] | None = None,
) -> Found:
    """The examples of these files; those that the model cannot be scored on are refused with their lines, or skipped.

    Without ``columns`` those that the model was trained on are taken, if the file has them.
    """
    usual = format_of(predictor.model.spec)
    format = usual.selecting(columns)
    if columns is None and isinstance(where, str) and predictor.recipe.data.columns is not None:
        trained = usual.selecting(predictor.recipe.data.columns)
        format = trained if trained.fits(where) else usual
    examples, skipped = format.read(where, bad_lines)
    unfit = list(predictor.unfit(examples, shown(where)))
    for bad in unfit:
        skipped.add(bad)
    if bad_lines == "refuse":
        skipped.refuse()
    lines = {bad.line for bad in unfit}
    examples = [example for example in examples if example.line not in lines]
    if not examples:
        raise DataError(f"{shown(where)}: no {format.name} inside that the model can be scored on; {skipped}")
    return Found(examples, skipped, format.notes(where))
