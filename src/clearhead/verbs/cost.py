"""``clearhead.cost`` and ``clearhead.crossover``: what models cost, before they are built.

Neither imports torch, but for a Hugging Face folder.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from clearhead.recipe import Recipe
from clearhead.verbs.naming import Changes, split, stated_recipe

if TYPE_CHECKING:  # importing it imports sympy, which no other verb is to wait for
    from clearhead.costing import Crossover, ModelCost


def cost(recipe: str | Path | Recipe | None = None, *overrides: str, settings: Changes = None) -> "ModelCost":
    """What a model costs, in closed forms: parameters, work, memory and span. Nothing is built.

    Args:
        recipe: A preset, a recipe, a model file, a run or a Hugging Face folder; without it the default recipe.
        overrides: Changes as on the command line: ``"model.layers=2"``.
        settings: Changes by name: ``{"model.layers": 2}``; overrides win over them.

    >>> import clearhead
    >>> base = clearhead.cost("transformer-base")
    >>> base.parameters.at()
    63082496
    >>> base["encoder"]["layers"]["attention"].macs.at(n=100, B=1)
    115097600
    >>> clearhead.cost("bert-base", settings={"model.layers": 11}).parameters.at()
    102394368
    """
    from clearhead.costing import cost_of_recipe, title_of

    table, words = split(settings)
    changes = [*words, *overrides]
    read, _ = stated_recipe(recipe, changes, more=table)
    return cost_of_recipe(read, title_of(recipe, *changes, settings=table))


def crossover(
    first: "ModelCost | str | Path | Recipe",
    second: "ModelCost | str | Path | Recipe | None" = None,
    *,
    over: str = "n",
    of: Literal["work", "memory", "span"] = "work",
    m: int | None = None,
    batch: int = 1,
) -> "Crossover":
    """The length at which ``second`` becomes cheaper than ``first``, solved.

    Args:
        first: A cost, or what ``clearhead.cost`` takes.
        second: The same. Without it: the length at which the n² terms of one layer's work overtake its other terms.
        over: The length that grows, n or m; other lengths grow with it.
        of: What is compared: ``work`` (multiply-accumulates), ``memory`` (bytes kept for the backward pass), ``span``.
        m: Target tokens, if they do not grow.
        batch: Sequences in a batch.

    >>> import clearhead
    >>> found = clearhead.crossover("bert-base", clearhead.cost("bert-base", "model.attention.kind=linformer"))
    >>> found.crossings[0].at
    129
    """
    from clearhead.costing import ModelCost
    from clearhead.costing import crossover as crossover_of_costs

    one = first if isinstance(first, ModelCost) else cost(first)
    other = second if second is None or isinstance(second, ModelCost) else cost(second)
    return crossover_of_costs(one, other, over=over, of=of, m=m, batch=batch)
