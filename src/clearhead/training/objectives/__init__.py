"""Training objectives: the data and the loss of each model family."""

from typing import Any

from clearhead.errors import ClearheadError
from clearhead.recipe import Recipe
from clearhead.training.objectives.base import Codecs, Objective
from clearhead.training.objectives.images import Images
from clearhead.training.objectives.labels import Labels
from clearhead.training.objectives.masked_tokens import MaskedTokens
from clearhead.training.objectives.pairs import Pairs, batch_loss
from clearhead.training.objectives.texts import NextTokens

_OBJECTIVES: dict[str, type[Objective[Any, Any, Any]]] = {
    "pairs": Pairs,
    "texts": NextTokens,
    "gaps": MaskedTokens,
    "labels": Labels,
    "pictures": Images,
}
"""Objectives by the data that a family learns from (``ModelSpec.learns``)."""


def objective_of(recipe: Recipe) -> Objective[Any, Any, Any]:
    """The objective of the recipe's model."""
    learns = recipe.model.learns
    if learns not in _OBJECTIVES:
        raise ClearheadError(f"a model of family {recipe.model.family} learns from {learns}, which has no objective")
    return _OBJECTIVES[learns](recipe)


__all__ = ["Codecs", "Objective", "batch_loss", "objective_of"]
