"""What each family learns from, and how: everything that training has to know about a family."""

from typing import Any

from clearhead.errors import ClearheadError
from clearhead.recipe import Recipe
from clearhead.training.objectives.base import Codecs, Objective
from clearhead.training.objectives.gaps import Gaps
from clearhead.training.objectives.labels import Labels
from clearhead.training.objectives.pairs import Pairs, batch_loss
from clearhead.training.objectives.pictures import Pictures
from clearhead.training.objectives.texts import Texts

_OBJECTIVES: dict[str, type[Objective[Any, Any, Any]]] = {
    "pairs": Pairs,
    "texts": Texts,
    "gaps": Gaps,
    "labels": Labels,
    "pictures": Pictures,
}
"""By what a family learns from (``ModelSpec.learns``)."""


def objective_of(recipe: Recipe) -> Objective[Any, Any, Any]:
    """How the recipe's model is trained."""
    learns = recipe.model.learns
    if learns not in _OBJECTIVES:
        raise ClearheadError(f"a model of family {recipe.model.family} learns from {learns}: no way to train on them")
    return _OBJECTIVES[learns](recipe)


__all__ = ["Codecs", "Objective", "batch_loss", "objective_of"]
