"""What ``training.precision=auto`` means: a question of the model and of the machine, which the caller asks."""

from collections.abc import Callable
from typing import Literal

from clearhead.recipe.model import Recipe
from clearhead.recipe.stack import StackSpec, TransformerSpec

Precision = Literal["float32", "bfloat16"]
FROM_WIDTH = 128
"""Width from which bfloat16 pays off on a CPU that multiplies it: below, conversions cost more than they save."""


def precision_of(recipe: Recipe, *, multiplies: Callable[[], bool]) -> Precision:
    """What the recipe's products are computed in.

    Without a word in the recipe, bfloat16 for Transformers that are wide enough to gain, if training takes a CPU that
    ``multiplies`` it; this is asked for such models only.
    """
    asked = recipe.training.precision
    if asked != "auto":
        return asked
    stacks = [part for _, part in recipe.model if isinstance(part, StackSpec)]
    gains = all(isinstance(stack, TransformerSpec) and stack.width >= FROM_WIDTH for stack in stacks)
    return "bfloat16" if gains and multiplies() else "float32"
