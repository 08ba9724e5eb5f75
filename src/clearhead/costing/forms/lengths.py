"""The lengths at which the cost of a model is computed: n, m, t and B, as asked for or as the model allows."""

from clearhead.errors import Problem, RecipeError
from clearhead.recipe import Recipe

USUAL = 512
"""Tokens of a sequence, unless another length is asked for, or a table of positions holds fewer."""


def reads_images(recipe: Recipe) -> bool:
    """Whether the model has as many tokens as its images have patches, so that n has no meaning."""
    return getattr(recipe.model, "patches", None) is not None


def position_limits(recipe: Recipe) -> dict[str, int]:
    """How many tokens the tables of learned positions hold: of the ``encoder``, of the ``decoder``."""
    parts = {name: getattr(recipe.model, name, None) for name in ("encoder", "decoder")}
    sizes = {name: getattr(getattr(part, "position", None), "size", None) for name, part in parts.items()}
    return {name: size for name, size in sizes.items() if isinstance(size, int)}


def lengths_of(
    recipe: Recipe, *, n: int | None = None, m: int | None = None, t: int | None = None, batch: int = 1
) -> dict[str, int]:
    """A number for each of n, m, B and t; what is longer than the model's positions is refused."""
    limits = {} if reads_images(recipe) else position_limits(recipe)
    has_both = hasattr(recipe.model, "encoder") and hasattr(recipe.model, "decoder")
    of_n = limits.get("encoder", USUAL if has_both else limits.get("decoder", USUAL))
    of_m = limits.get("decoder", USUAL) if has_both else USUAL
    n = min(USUAL, of_n) if n is None else n
    m = (min(n, of_m) if has_both and "decoder" in limits else n) if m is None else m
    for part, limit in limits.items():
        letter, length = ("m", m) if has_both and part == "decoder" else ("n", n)
        if length > limit:
            problem = f"the {part}'s table of learned positions holds {limit}"
            raise RecipeError([Problem("", f"{letter} = {length}", problem)])
    return {"n": n, "m": m, "B": batch, "t": m if t is None else t}
