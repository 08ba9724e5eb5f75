"""Loads a model file as a predictor."""

from pathlib import Path
from typing import Any

from clearhead.data import UNK, Codec, codecs_of
from clearhead.errors import ClearheadError, DataError, ModelFileError
from clearhead.models import Model, SavedModel, load_model
from clearhead.predictor.base import Predictor
from clearhead.predictor.filler import Filler
from clearhead.predictor.labeller import ImageLabeller, Labeller
from clearhead.predictor.pronouncer import Pronouncer
from clearhead.predictor.writer import TextWriter
from clearhead.recipe import Recipe

_PREDICTORS: dict[str, Any] = {
    "pairs": TextWriter,
    "texts": TextWriter,
    "gaps": Filler,
    "labels": Labeller,
    "pictures": ImageLabeller,
}
"""Predictors by the data that a family learns from (``ModelSpec.learns``)."""


def predictor_of(model: Model, recipe: Recipe, codecs: tuple[Codec, ...]) -> Predictor:
    """Make the predictor of a model's family."""
    if model.spec.learns not in _PREDICTORS:
        raise ClearheadError(f"a model of family {model.spec.family} has no predictor")
    made: type[Predictor] = Pronouncer if recipe.data.task == "g2p-en" else _PREDICTORS[model.spec.learns]
    return made(model, recipe, codecs)


def _codecs(saved: SavedModel, path: Path) -> tuple[Codec, ...]:
    """Read the tokenizers of a model file, and check that the model has an embedding for each of their ids."""
    try:
        codecs = codecs_of(saved.tokenizers)
    except DataError as error:
        raise ModelFileError(f"{path}: {error}") from None
    vocabulary, sides = saved.model.spec.vocabulary, saved.model.spec.sides
    for side, codec in zip(("source", "target"), codecs, strict=True):
        size = getattr(vocabulary, side)
        largest = max(codec.largest, UNK)
        if side in sides and largest >= size:
            raise ModelFileError(
                f"{path}: its {side} tokenizer has ids up to {largest}, but the model has {size} tokens"
            )
    return codecs


def load(path: str | Path, *overrides: str) -> Predictor:
    """Load a model.

    Args:
        path: a model file, or a run folder, whose best model is taken.
        overrides: decoding settings in the form ``decoding.key=value``.
    """
    path = Path(path)
    path = path / "best.safetensors" if path.is_dir() else path
    return ready(load_model(path), path, *overrides)


def ready(saved: SavedModel, path: Path, *overrides: str) -> Predictor:
    """Make a predictor from a loaded model; messages name it by ``path``."""
    codecs = () if saved.model.spec.learns == "pictures" else _codecs(saved, path)
    return predictor_of(saved.model, saved.recipe, codecs).answering(*overrides)
