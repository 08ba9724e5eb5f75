"""What training a recipe will hold in memory, by the closed forms, so that it can be refused before it is taken."""

from clearhead.costing.forms.sketch import FLOAT
from clearhead.costing.model import cost
from clearhead.machine import require_memory
from clearhead.recipe import Recipe


def training_bytes(recipe: Recipe, *, length: int | None = None, examples: int | None = None) -> int:
    """Bytes of weights, gradients, optimizer, average, and of what one batch keeps for the backward pass.

    ``length`` is that of the longest line on either side, if it is known; otherwise the longest that the recipe
    allows. No batch has more lines than there are ``examples``. Attention is counted as if it never held its weights,
    and the loss not at all: training needs this much at least.
    """
    spec = recipe.training
    tokens = max(1, min(length or recipe.data.max_length, spec.batch_tokens))
    lines = max(1, min(spec.batch_tokens // tokens, examples or spec.batch_tokens))
    passes = 2 if spec.agreement else 1
    whole = cost(recipe)
    held = whole.weights + whole.adapters * FLOAT + whole.gradients + whole.optimizer + whole.average
    if not whole.is_tuned:  # parts that are frozen may keep nothing
        held = held + whole.fused.saved
    return int(held.at(n=tokens, m=tokens, t=tokens, B=lines * passes))


def require_training_memory(recipe: Recipe, *, length: int | None = None, examples: int | None = None) -> None:
    """Refuse a training that cannot fit into memory, before it takes any: exit code 4."""
    require_memory(
        training_bytes(recipe, length=length, examples=examples),
        "training this model",
        "choose a smaller training.batch_tokens, data.max_length, model.width or vocabulary",
    )
