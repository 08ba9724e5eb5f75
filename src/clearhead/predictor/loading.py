"""From a model file to something that answers."""

from pathlib import Path
from typing import Any

from clearhead.data import Codec, codecs_of
from clearhead.errors import ClearheadError
from clearhead.models import Model, load_model
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


def load(path: str | Path, *overrides: str) -> Predictor:
    """A model file, or the best model of a run folder, ready to answer; ``decoding.key=value`` says how."""
    path = Path(path)
    saved = load_model(path / "best.safetensors" if path.is_dir() else path)
    codecs = () if saved.model.spec.learns == "pictures" else codecs_of(saved.tokenizers)
    predictor = predictor_of(saved.model, saved.recipe, codecs)
    predictor.recipe = saved.recipe.model_copy(update={"decoding": predictor.decoding(*overrides)})
    return predictor
