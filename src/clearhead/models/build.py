"""From a recipe to a model with fresh weights."""

import torch

from clearhead.errors import DoesNotFit
from clearhead.models.base import Model
from clearhead.models.device import pick_device
from clearhead.models.initialise import initialise
from clearhead.models.outline import require_model_memory
from clearhead.recipe import Recipe, module_of


def build(recipe: Recipe, *, seed: int | None = None, device: str = "cpu") -> Model:
    """A model as the recipe describes it, in training mode; with a seed its weights are reproducible.

    A model that does not fit into memory is refused before it takes any. The global random state is left as it was
    when a seed is given.
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
    """Number of weights; shared ones count once."""
    return sum(parameter.numel() for parameter in model.parameters())
