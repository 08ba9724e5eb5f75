"""Recipes and models by any name that they have: see ``clearhead.recipe.naming`` for the rule."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.predictor import Predictor
    from clearhead.recipe import Recipe, Settings


def recipe_named(source: str | None, *overrides: str, anew: bool = False) -> "Recipe":
    """The recipe of a preset, a TOML file, a model file, a run or a Hugging Face folder, with changes.

    With ``anew`` what training decided from its data is left out, to train on others.
    """
    return stated_recipe(source, *overrides, anew=anew)[0]


def stated_recipe(source: str | None, *overrides: str, anew: bool = False) -> "tuple[Recipe, Settings]":
    """The same, and every setting that was given, with its place; the rest are defaults."""
    from clearhead.recipe import named, read_with_origins, recipe_table, table_with_origins

    if source is None or named(source) != "huggingface":
        return read_with_origins(source, *overrides, anew=anew)
    from clearhead.interop import load_huggingface

    return table_with_origins(recipe_table(load_huggingface(source).recipe), *overrides, name=source, anew=anew)


def say_what_is_taken(source: str | None) -> None:
    """Say that a trained model gives training its recipe, and no more."""
    from clearhead.recipe import named

    if source is not None and named(source) in ("model", "run", "huggingface"):
        print(f"{source}: its recipe is taken, without its weights: training starts anew", file=sys.stderr)


def model_named(word: str | Path, *overrides: str) -> "Predictor":
    """A model file, the best model of a run, or a Hugging Face folder, ready to answer."""
    from clearhead.recipe import weights_of

    path, foreign = weights_of(word)  # before torch is imported, so that a mistake is told at once
    from clearhead.predictor import load, ready

    if not foreign:
        return load(path, *overrides)
    from clearhead.interop import load_huggingface

    return ready(load_huggingface(path), path, *overrides)
