"""``clearhead.show``: the blocks of a model, with their shapes, while a line runs through them."""

from pathlib import Path
from typing import TYPE_CHECKING

from clearhead.errors import Problem, RecipeError
from clearhead.recipe import Recipe, named, notes_of
from clearhead.verbs.naming import Changes, described_origin, origin_named, recipe_named, split
from clearhead.verbs.undisturbed import undisturbed

if TYPE_CHECKING:
    from clearhead.models import BlockTree

LINE = "Attention is all you need."


def show(
    source: str | Path | Recipe | None = None,
    *,
    line: str = LINE,
    settings: Changes = None,
) -> "BlockTree":
    """Build a model, run a line through it, and tell of every block its settings and the shape that comes out.

    Args:
        source: A preset, a recipe, a run, a Hugging Face folder, or a model file; without it the default recipe.
        line: The text to run through the model, byte by byte; for images, pixel by pixel.
        settings: Changes to the recipe. A model file is trained, and takes none.
    """
    table, words = split(settings)
    trained = isinstance(source, str | Path) and (Path(source).suffix == ".safetensors" or named(source) == "model")
    if trained and settings:
        raise RecipeError([Problem("", [*table, *words][0], "a trained model cannot be changed by overrides")])
    # read before torch is imported, so that a mistake is reported at once
    recipe = None if trained else recipe_named(source, settings)

    from clearhead.models import SavedModel, block_tree, build, load_model, use_cores

    with undisturbed():
        use_cores()
        if recipe is None:
            assert isinstance(source, str | Path)
            shown = load_model(source)
        else:
            shown = SavedModel(build(recipe, seed=1), recipe)
        name = "recipe" if isinstance(source, Recipe) else str(source or "default")
        notes = [*notes_of(shown.recipe), *described_origin(origin_named(source), name)]
        return block_tree(shown.model, name, line, tuple(notes))
