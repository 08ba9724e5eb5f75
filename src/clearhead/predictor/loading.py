"""From a model file to something that answers."""

from pathlib import Path
from typing import Any

from clearhead.data import UNK, Codec, codecs_of
from clearhead.errors import ClearheadError, DataError, ModelFileError
from clearhead.models import Model, SavedModel, load_model
from clearhead.predictor.base import Predictor
from clearhead.predictor.filler import Filler
from clearhead.predictor.labeller import Labeller, PictureLabeller
from clearhead.predictor.writer import TextWriter
from clearhead.recipe import Recipe

_PREDICTORS: dict[str, Any] = {
    "pairs": TextWriter,
    "texts": TextWriter,
    "gaps": Filler,
    "labels": Labeller,
    "pictures": PictureLabeller,
}
"""By what a family learns from (``ModelSpec.learns``)."""


def predictor_of(model: Model, recipe: Recipe, codecs: tuple[Codec, ...]) -> Predictor:
    """The model, ready to answer."""
    if model.spec.learns not in _PREDICTORS:
        raise ClearheadError(f"a model of family {model.spec.family} does not answer texts")
    predictor: Predictor = _PREDICTORS[model.spec.learns](model, recipe, codecs)
    return predictor


def _codecs(saved: SavedModel, path: Path) -> tuple[Codec, ...]:
    """The tokenizers of a model file, whose ids must all have a vector in the model."""
    try:
        codecs = codecs_of(saved.tokenizers)
    except DataError as error:
        raise ModelFileError(f"{path}: {error}") from None
    vocabulary, sides = saved.model.spec.vocabulary, saved.model.spec.sides
    for side, codec in zip(("source", "target"), codecs, strict=True):
        size = getattr(vocabulary, side)
        largest = max(codec.largest, UNK)
        if side in sides and largest >= size:
            raise ModelFileError(f"{path}: its {side} tokenizer has ids up to {largest}, the model knows {size} tokens")
    return codecs


def load(path: str | Path, *overrides: str) -> Predictor:
    """A model file, or the best model of a run folder, ready to answer; ``decoding.key=value`` says how."""
    path = Path(path)
    path = path / "best.safetensors" if path.is_dir() else path
    return ready(load_model(path), path, *overrides)


def ready(saved: SavedModel, path: Path, *overrides: str) -> Predictor:
    """A model that is loaded, ready to answer; ``path`` says where it comes from in messages."""
    codecs = () if saved.model.spec.learns == "pictures" else _codecs(saved, path)
    predictor = predictor_of(saved.model, saved.recipe, codecs)
    predictor.recipe = saved.recipe.updated(decoding=predictor.decoding(*overrides))
    return predictor
