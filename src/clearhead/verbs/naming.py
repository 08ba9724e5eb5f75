"""Recipes and models by any name that they have: see ``clearhead.recipe.naming`` for the rule.

Modules that need torch are imported when a model is loaded, so that a mistake in a name is reported at once.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.recipe import Recipe, named, read_with_origins, recipe_table, table_with_origins, weights_of
from clearhead.recipe.sources import Settings

if TYPE_CHECKING:
    from clearhead.predictor import Predictor
    from clearhead.verbs.run import Run

Overrides = Sequence[str]
"""Words of the form ``section.key=value``."""


def stated_recipe(source: "str | Path | Recipe | None", *overrides: str, anew: bool = False) -> tuple[Recipe, Settings]:
    """The recipe that a name stands for, with changes, and every setting that was given; the rest are defaults.

    The name is that of a preset, a TOML file, a model file, a run or a Hugging Face folder. With ``anew`` what training
    decided from its data is left out, to train on others.
    """
    if isinstance(source, Recipe):
        return table_with_origins(recipe_table(source), *overrides, anew=anew)
    if source is None or named(source) != "huggingface":
        return read_with_origins(source, *overrides, anew=anew)
    from clearhead.interop import load_huggingface

    return table_with_origins(recipe_table(load_huggingface(source).recipe), *overrides, name=str(source), anew=anew)


def recipe_named(source: "str | Path | Recipe | None", *overrides: str, anew: bool = False) -> Recipe:
    """The recipe alone."""
    return stated_recipe(source, *overrides, anew=anew)[0]


def model_named(model: "str | Path | Run | Predictor", *overrides: str) -> "Predictor":
    """A model file, the best model of a run, or a Hugging Face folder, ready to answer; a model that is loaded already
    with other settings of ``[decoding]``."""
    if not isinstance(model, str | Path):
        from clearhead.predictor import Predictor
        from clearhead.verbs.run import Run

        loaded = model.model if isinstance(model, Run) else model
        if not isinstance(loaded, Predictor):
            raise TypeError(f"model must be a model, a run or the name of one, not {type(model).__name__}")
        return loaded.answering(*overrides) if overrides else loaded
    path, foreign = weights_of(model)
    from clearhead.predictor import load, ready

    if not foreign:
        return load(path, *overrides)
    from clearhead.interop import load_huggingface

    return ready(load_huggingface(path), path, *overrides)


def override_words(settings: "Mapping[str, Any] | Overrides | None") -> list[str]:
    """Settings as words; a mapping may have dotted names, or tables inside."""
    if settings is None:
        return []
    if isinstance(settings, str):
        raise TypeError('settings is a dict, {"model.width": 64}, or a list of words, ["model.width=64"]')
    if isinstance(settings, Mapping):
        return [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in _leaves(settings)]
    return list(settings)


def _leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
