"""Where settings come from: presets, TOML files, the command line, Python; each becomes one flat table."""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from clearhead.errors import Problem, RecipeError, did_you_mean
from clearhead.recipe.describing import short
from clearhead.recipe.model import Recipe
from clearhead.recipe.parts import full_names
from clearhead.recipe.settings import (
    COMMAND_LINE,
    DEEPEST,
    MOST_SETTINGS,
    PRESET,
    SETTINGS,
    Given,
    Key,
    Settings,
    leaves,
    put,
)
from clearhead.recipe.spec import KindSpec, Spec
from clearhead.recipe.writing import recipe_table

LONGEST_TEXT = 1 << 18
"""Characters of a recipe, or of one override; a complete recipe has about 5,000."""
MOST_DOTS = 50
"""In one word: reading a name takes time that grows with the square of its parts."""


# ---- presets and files ----


def preset_names() -> list[str]:
    """The presets that come with clearhead."""
    return sorted(path.name.removesuffix(".toml") for path in _presets().iterdir() if path.name.endswith(".toml"))


def preset_text(name: str, where: str = "", key: str = "") -> str:
    """A preset as it stands in the package, a commented recipe; an unknown name shows the nearest one.

    ``where`` and ``key`` say who asked for it, in that error.
    """
    names = preset_names()
    if name not in names:
        raise RecipeError([Problem(where, key, f"no preset {name!r}{did_you_mean(name, names)} ({', '.join(names)})")])
    text: str = (_presets() / f"{name}.toml").read_text(encoding="utf-8")
    return text


def _presets() -> Any:
    return files("clearhead.recipe") / "presets"


def settings_of_preset(name: str, where: str = "", key: str = "") -> Settings:
    """The settings of a preset; ``where`` and ``key`` say who asked for it, if there is none of that name."""
    return settings_of_text(preset_text(name, where, key), f"{PRESET}{name}")


def settings_of_file(path: Path) -> Settings:
    """The settings of a TOML file."""
    try:
        with path.open(encoding="utf-8-sig") as stream:
            text = stream.read(LONGEST_TEXT + 1)
    except UnicodeDecodeError as error:
        raise RecipeError([Problem(str(path), "", f"is not UTF-8 (byte {error.start})")]) from None
    except OSError as error:
        raise RecipeError([Problem(str(path), "", f"cannot be read: {error.strerror}")]) from None
    return settings_of_text(text, str(path))


def settings_of_text(text: str, name: str) -> Settings:
    """The settings of TOML text; ``name`` says whose it is in error messages."""
    if reason := _no_recipe(text):
        raise RecipeError([Problem(name, "", reason)])
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        message = short(" ".join(str(error).split()), 200)
        raise RecipeError([Problem(name, "", f"is not valid TOML: {message}")]) from None
    lines = _line_numbers(text)

    def line(key: Key) -> int:
        """The line of the key itself, or of the inline table that it stands in."""
        return next((lines[key[:size]] for size in range(len(key), 0, -1) if key[:size] in lines), 0)

    return {key: Given(value, ".".join(key), name, line(key)) for key, value in leaves(table, name)}


_HEADER = re.compile(r"^\s*\[\s*([^\[\]]+?)\s*\]")
_ASSIGNMENT = re.compile(r"^\s*([A-Za-z0-9_\-.\"' ]+?)\s*=")


def _line_numbers(text: str) -> dict[Key, int]:
    """The line of every table header and assignment. Only for messages: tomllib has read the file properly."""
    lines: dict[Key, int] = {}
    section: Key = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            section = _split(header[1])
            lines[section] = number
        elif assignment := _ASSIGNMENT.match(line):
            lines[section + _split(assignment[1])] = number
    return lines


def _split(dotted: str) -> Key:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


# ---- the command line ----


def settings_of_overrides(overrides: Sequence[str]) -> Settings:
    """``section.key=value`` arguments; a value is TOML, or else taken as a bare word."""
    settings: Settings = {}
    problems = []
    if len(overrides) > MOST_SETTINGS:
        raise RecipeError([Problem(COMMAND_LINE, "", f"{len(overrides):,} changes; up to {MOST_SETTINGS:,} are read")])
    for order, text in enumerate(overrides):
        name, equals, value = text.partition("=")
        key = tuple(part.strip() for part in name.split("."))
        if not equals or len(key) < 2 or not all(key):
            meant = [f"{full}={short(value)}" for full in full_names(key[0])] if equals and len(key) == 1 else []
            hint = f"; did you mean {' or '.join(meant)}?" if meant else ""
            problems.append(Problem(COMMAND_LINE, short(text), f"an override reads section.key=value{hint}"))
            continue
        if reason := _no_recipe(text):
            problems.append(Problem(COMMAND_LINE, short(name), reason))
            continue
        given = Given(_toml_value(value.strip()), ".".join(key), COMMAND_LINE, order=order)
        try:
            found = leaves({"": given.value}, COMMAND_LINE, key)
        except RecipeError as error:
            problems += error.problems
            continue
        for inner, leaf in found:
            full = key + inner[1:]
            put(settings, full, replace(given, value=leaf, key=".".join(full)))
    if problems:
        raise RecipeError(problems)
    return settings


def _no_recipe(text: str) -> str:
    """Why a text is too much to be read as settings, or an empty string."""
    if len(text) > LONGEST_TEXT:
        return f"is longer than {LONGEST_TEXT:,} characters, and no recipe is"
    dotted = any(word.count(".") > MOST_DOTS for word in text.split())
    return f"has a name with more than {MOST_DOTS} dots" if dotted else ""


def _toml_value(text: str) -> Any:
    try:
        table = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):  # no TOML, or a number with thousands of digits
        return text
    # a line break inside the argument could smuggle in further keys
    return table["value"] if len(table) == 1 else text


# ---- Python ----


def settings_of_mapping(table: Mapping[str, Any], name: str) -> Settings:
    """The settings of a nested mapping, such as the recipe inside a model file; ``name`` appears in errors."""
    return {key: Given(value, ".".join(key), name) for key, value in leaves(table, name)}


def settings_of_python(settings: Mapping[str, Any]) -> Settings:
    """Settings as Python objects, by names with dots, as tables, or both: ``{"model.width": 64, "data": {"dev": …}}``.

    Tuples are read as lists, paths as texts, and numbers of other libraries (numpy's) as plain numbers. Of two values
    for one setting the later one counts.
    """
    found: Settings = {}
    problems = []
    place = {word: number for number, word in enumerate(settings)}
    for words, value in sorted(leaves(settings, SETTINGS), key=lambda leaf: place[leaf[0][0]]):
        key = tuple(part.strip() for word in words for part in word.split("."))
        name = ".".join(key)
        if not all(key):
            problems.append(Problem(SETTINGS, short(name), "a setting is named section.key"))
        elif len(key) > DEEPEST:
            problems.append(Problem(SETTINGS, short(name), f"is no setting: names have up to {DEEPEST} parts"))
        else:
            put(found, key, Given(_plain(value), name, SETTINGS, order=place[words[0]]))
    if problems:
        raise RecipeError(problems)
    return found


def _plain(value: Any) -> Any:
    """A value as TOML or JSON would give it."""
    if isinstance(value, os.PathLike):
        return str(value)
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, bool):
        return value
    return int(value) if isinstance(value, Integral) else float(value) if isinstance(value, Real) else value


def settings_of_recipe(recipe: Recipe) -> Settings:
    """Everything that a recipe says, and whether it was set (``stated``) or is a default."""
    stated = set(_stated(recipe))
    table = settings_of_mapping(recipe_table(recipe), "recipe")
    return {key: replace(given, stated=key in stated) for key, given in table.items()}


def _stated(spec: Spec, path: Key = ()) -> Iterator[Key]:
    """The settings of a table, and of tables inside it, that were set; a kind other than the default counts as set."""
    for name in spec.model_fields_set:
        value, usual = getattr(spec, name), type(spec).model_fields[name].default
        if not isinstance(value, Spec):
            yield (*path, name)
            continue
        yield from _stated(value, (*path, name))
        if isinstance(value, KindSpec) and type(value) is not type(usual):
            yield (*path, name, value.tag)
