"""Reading a recipe: sources become levels of settings, levels one flat set of settings, and that a validated recipe.

sources.py      presets, TOML files, model files, the command line, Python → flat settings with their origins
merging.py      levels → one flat set: shared settings spread over the parts, the higher level wins
constructing.py flat settings → specs; all mistakes are reported at once
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from clearhead.errors import ModelFileError, Problem, RecipeError, did_you_mean
from clearhead.recipe.constructing import recipe_of, section_of
from clearhead.recipe.describing import shown
from clearhead.recipe.merging import BUDGETS, merged
from clearhead.recipe.model import Recipe
from clearhead.recipe.naming import named, no_recipe, shipped_file
from clearhead.recipe.registry import load_plugins
from clearhead.recipe.settings import Key, Settings, put
from clearhead.recipe.sources import (
    preset_names,
    settings_of_file,
    settings_of_mapping,
    settings_of_overrides,
    settings_of_preset,
    settings_of_python,
    settings_of_recipe,
)
from clearhead.recipe.starting import carried_over, family_of, require_agreement
from clearhead.recipe.stored import Header, read_header
from clearhead.recipe.training import DecodingSpec

Source = str | Path | Recipe
"""What a recipe is read from: a preset's name, a TOML file, a model file, a run folder, or a recipe."""


def read_recipe(
    source: Source | None = None, *overrides: str, settings: Mapping[str, Any] | None = None, anew: bool = False
) -> Recipe:
    """Read a recipe from a preset, a TOML file, a model file, a run or another recipe, with some settings changed.

    source     a preset's name, a path, or a ``Recipe``; None for the defaults
    overrides  changes as text, as on the command line: ``"model.layers=2"``
    settings   changes as Python objects, by full names, as tables, or both: ``{"model.width": 64, "training":
               {"seed": 2}}``
    anew       leave out what training decided from its data, so that such a model can be trained on others

    Overrides win over settings, settings over the file, the file over the preset that it names with ``preset = "…"``.
    Everything that is wrong is reported in one ``RecipeError``.
    """
    return read_with_origins(source, *overrides, settings=settings, anew=anew)[0]


def read_with_origins(
    source: Source | None = None, *overrides: str, settings: Mapping[str, Any] | None = None, anew: bool = False
) -> tuple[Recipe, Settings]:
    """The recipe as ``read_recipe`` reads it, and every setting that was given, with its place; the rest are defaults.

    Settings that several parts share stand under each part: ``model.layers`` as ``("model", "encoder", "layers")``. Of
    a ``Recipe`` as the source, what was set counts as given.
    """
    changes = [settings_of_python(settings or {}), settings_of_overrides(overrides)]
    levels = [] if source is None else _levels(source)
    if anew and source is not None and _was_trained(source, levels):
        levels = [_without_results(level, changes) for level in levels]
    return _resolve([*levels, *changes])


def read_tuned(
    start: Recipe,
    name: str,
    source: Source | None = None,
    *overrides: str,
    settings: Mapping[str, Any] | None = None,
) -> tuple[Recipe, Settings]:
    """The recipe of a run that starts from a trained model, and what was stated.

    start      the recipe of that model
    name       what it is called, for errors
    source     a recipe that says how to train; what it says of the model must agree with the start
    overrides  changes as text, and
    settings   as Python objects, as for ``read_recipe``
    """
    changes = [settings_of_python(settings or {}), settings_of_overrides(overrides)]
    levels = [*([] if source is None else _levels(source)), *changes]
    table = carried_over(start, family_of(start.model, *levels), name)
    lowest = {key: replace(given, stated=False) for key, given in settings_of_mapping(table, name).items()}
    recipe, stated = _resolve([lowest, *levels])
    require_agreement(recipe, stated, table, name)
    return recipe, stated


def recipe_from(table: Mapping[str, Any], *overrides: str, name: str = "recipe") -> Recipe:
    """A recipe from a nested mapping, such as the JSON inside a model file; ``name`` appears in errors."""
    return _resolve([settings_of_mapping(table, name), settings_of_overrides(overrides)])[0]


def recipe_of_header(header: Header) -> Recipe:
    """The recipe that a model file was built from; one that cannot be read says who wrote it."""
    try:
        return recipe_from(header.recipe_table(), name=str(header.path))
    except RecipeError as error:
        written = str(header.metadata.get("clearhead"))[:20]
        raise ModelFileError(f"{header.path}: was written by clearhead {written}; {error}") from None


def read_decoding(recipe: Recipe, *overrides: str, settings: Mapping[str, Any] | None = None) -> DecodingSpec:
    """The recipe's ``[decoding]`` with some settings changed; the other sections are not read again.

    ``overrides`` have the form ``decoding.key=value``; ``settings`` are Python objects by the names of that section.
    """
    for word in overrides:
        if not word.startswith("decoding."):
            raise RecipeError([Problem("command line", word, "of a trained model only decoding.key can be set")])
    decoding = settings_of_mapping({"decoding": dict(recipe.decoding)}, "settings")
    for level in (settings_of_python({"decoding": settings or {}}), settings_of_overrides(overrides)):
        for key, given in level.items():
            put(decoding, key, given)
    return section_of(decoding, "decoding", recipe).decoding


def _resolve(levels: Sequence[Settings]) -> tuple[Recipe, Settings]:
    """The recipe that all levels describe together, the lowest first; and what was stated."""
    load_plugins()
    settings, parts = merged([level for level in levels if level])
    return recipe_of(settings, parts), {key: given for key, given in settings.items() if given.stated}


def _levels(source: Source) -> list[Settings]:
    """The settings behind a name, lowest first: a preset, or a file and the preset that it builds on."""
    if isinstance(source, Recipe):
        return [settings_of_recipe(source)]
    name, path, kind = str(source), Path(source), named(source)
    if (shipped := shipped_file(source)) is not None:
        path, kind = shipped, "model"
    if kind == "preset":
        return [settings_of_preset(name)]
    if kind == "model":
        return [settings_of_mapping(read_header(path).recipe_table(), name)]
    if kind == "run":
        path = path / "recipe.toml" if path.is_dir() else path
    elif kind == "missing" and name.endswith(".toml"):
        raise RecipeError([Problem("", name, "no such file")])
    elif kind == "missing":
        names = preset_names()
        near = did_you_mean(name, names)
        raise RecipeError([Problem("", shown(name), f"no such file or preset{near} (presets: {', '.join(names)})")])
    elif kind == "huggingface":
        hint = "is a folder, not a recipe; a Hugging Face folder becomes a model file with `clearhead import`"
        raise RecipeError([Problem("", name, hint)])
    elif kind in ("folder", "task", "stdin"):
        what = {"task": "is a task, not a recipe", "stdin": "a recipe is a file"}
        raise RecipeError([Problem("", name, what.get(kind, no_recipe(name)))])
    settings = settings_of_file(path)
    given = settings.pop(("preset",), None)
    if given is None:
        return [settings]
    if not isinstance(given.value, str):
        raise RecipeError([Problem(given.where, f"preset = {shown(given.value)}", "must be the name of a preset")])
    return [settings_of_preset(given.value, given.where, given.key), settings]


def _was_trained(source: Source, levels: Sequence[Settings]) -> bool:
    """Whether a recipe holds what training decided; one that a person wrote seldom states a vocabulary."""
    if isinstance(source, Recipe):
        return any(given.stated and key[:2] == _VOCABULARY for level in levels for key, given in level.items())
    return named(source) in ("run", "model") or shipped_file(source) is not None


def _without_results(settings: Settings, changes: Sequence[Settings]) -> Settings:
    """The settings of a trained model without what its data decided: vocabulary, labels, and what depends on them.

    If the changes name other data, or a budget, those of the run go, and with a budget the interval of evaluations.
    """
    changed = {key for level in changes for key, given in level.items() if given.value is not None}
    gone: set[Key] = {("model", "labels"), ("model", "classes")}
    if any(key[:2] in (("data", "train"), ("data", "task")) for key in changed):
        gone |= {("data", name) for name in ("task", "train", "more", "dev", "test", "columns")}
    if any(key in BUDGETS for key in changed):
        gone |= {*BUDGETS, ("training", "evaluate_every")}
    tied = settings.get(("model", "embedding", "tie"))
    if tied is not None and tied.value == "all":  # which needs one vocabulary for both sides
        gone.add(("model", "embedding", "tie"))
    return {key: given for key, given in settings.items() if key not in gone and key[:2] != _VOCABULARY}


_VOCABULARY = ("model", "vocabulary")
