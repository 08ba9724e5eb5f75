"""Builds a model with initial weights from a recipe."""

import torch

from clearhead.errors import DoesNotFit
from clearhead.models.base import Model
from clearhead.models.device import pick_device
from clearhead.models.initialise import initialise
from clearhead.models.outline import require_model_memory
from clearhead.recipe import Recipe, module_of


def build(recipe: Recipe, *, seed: int | None = None, device: str = "cpu") -> Model:
    """Build the model that a recipe describes, in training mode.

    Args:
        recipe: the recipe.
        seed: makes the weights reproducible and leaves the global random state as it is. Default: torch's own state.
        device: ``cpu`` (the default), ``cuda``, ``mps`` or ``auto``.

    A model that does not fit into memory is refused before any is allocated.
    """
    require_model_memory(recipe.model)
    with torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.manual_seed(seed)
        try:
            model: Model = module_of(recipe.model).from_spec(recipe.model)
            initialise(model, recipe.model.init)
        except (RuntimeError, MemoryError) as error:
            if isinstance(error, RuntimeError) and "alloc" not in str(error):
                raise
            raise DoesNotFit(
                "the model does not fit into memory: choose a smaller width, vocabulary or depth"
            ) from None
    return model.to(pick_device(device))


def count_parameters(model: torch.nn.Module) -> int:
    """The number of parameters; shared ones count once."""
    return sum(parameter.numel() for parameter in model.parameters())
