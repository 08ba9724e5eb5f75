"""Where settings come from: presets, TOML files, the command line; each value remembers its origin.

A source becomes a flat table, ``("model", "encoder", "layers") → Given(4, "model.layers", "recipe.toml", 7)``,
which makes merging, spreading and error messages simple.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from clearhead.errors import Problem, RecipeError, did_you_mean

Key = tuple[str, ...]
MODEL_WORDS = ("family", "layers", "width", "heads", "attention", "position", "feedforward", "norm", "dropout")
"""Settings that people write without their section."""


@dataclass(frozen=True)
class Given:
    """A value and where the user wrote it."""

    value: Any
    key: str
    """As written, such as ``model.layers``."""
    source: str
    """``recipe.toml``, ``command line``, ``preset tiny``."""
    line: int = 0
    """The line of a file; 0 if there are no lines."""
    order: int = 0
    """The number of a command-line argument, to report problems in the order they were typed."""

    @property
    def where(self) -> str:
        """Source and line, as an error names them."""
        return f"{self.source}, line {self.line}" if self.line else self.source


Settings = dict[Key, Given]

LONGEST_TEXT = 1 << 18
"""Characters of a recipe, or of one override; a complete recipe has about 5,000."""
LONGEST_NAME = 200
"""Characters of a setting's full name; the longest that means something has about 40."""
MOST_SETTINGS = 2_000
"""A complete recipe has about 150."""
DEEPEST = 8
"""Tables inside tables, lists included; recipes go to 5."""
MOST_DOTS = 50
"""In one word: reading a name takes time that grows with the square of its parts."""


def put(settings: Settings, key: Key, given: Given) -> None:
    """Set a value; it replaces the table that stood there, and any value that stood where it needs a table."""
    for other in list(settings):
        if other != key and (other[: len(key)] == key or key[: len(other)] == other):
            del settings[other]
    settings[key] = given


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
    """The settings of a preset."""
    return settings_of_text(preset_text(name, where, key), f"preset {name}")


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
        raise RecipeError([Problem(name, "", f"is not valid TOML: {_one_line(error)}")]) from None
    lines = _line_numbers(text)

    def line(key: Key) -> int:
        """The line of the key itself, or of the inline table that it stands in."""
        return next((lines[key[:size]] for size in range(len(key), 0, -1) if key[:size] in lines), 0)

    return {key: Given(value, ".".join(key), name, line(key)) for key, value in _leaves(table, name)}


def settings_of_mapping(table: Mapping[str, Any], name: str) -> Settings:
    """The settings of a nested mapping, such as the recipe inside a model file."""
    return {key: Given(value, ".".join(key), name) for key, value in _leaves(table, name)}


def settings_of_overrides(overrides: Sequence[str]) -> Settings:
    """``section.key=value`` arguments; a value is TOML, or else taken as a bare word."""
    settings: Settings = {}
    problems = []
    if len(overrides) > MOST_SETTINGS:
        raise RecipeError(
            [Problem("command line", "", f"{len(overrides):,} changes; up to {MOST_SETTINGS:,} are read")]
        )
    for order, text in enumerate(overrides):
        name, equals, value = text.partition("=")
        key = tuple(part.strip() for part in name.split("."))
        if not equals or len(key) < 2 or not all(key):
            hint = f"; did you mean model.{short(text)}?" if equals and len(key) == 1 and key[0] in MODEL_WORDS else ""
            problems.append(Problem("command line", short(text), f"an override reads section.key=value{hint}"))
            continue
        if reason := _no_recipe(text):
            problems.append(Problem("command line", short(name), reason))
            continue
        given = Given(_toml_value(value.strip()), ".".join(key), "command line", order=order)
        try:
            leaves = _leaves({"": given.value}, "command line", key)
        except RecipeError as error:
            problems += error.problems
            continue
        for inner, leaf in leaves:
            full = key + inner[1:]
            put(settings, full, replace(given, value=leaf, key=".".join(full)))
    if problems:
        raise RecipeError(problems)
    return settings


def short(text: str, most: int = 60) -> str:
    """A text for a message: its beginning, if it is long."""
    return text if len(text) <= most else text[: most - 3] + "…"


def _one_line(error: BaseException) -> str:
    return short(" ".join(str(error).split()), 200)


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


def _leaves(table: Mapping[str, Any], name: str, prefix: Key = ()) -> list[tuple[Key, Any]]:
    """Leaves with their full names; a table without settings says nothing. What cannot be a recipe is refused.

    ``prefix`` counts for the depth and is shown, but is not part of the names.
    """
    found: list[tuple[Key, Any]] = []
    waiting: list[tuple[Key, Mapping[str, Any]]] = [((), table)]
    while waiting:
        place, inner = waiting.pop()
        further: list[tuple[Key, Mapping[str, Any]]] = []
        for word, value in inner.items():
            key = (*place, word)
            shown = short(".".join(str(part) for part in (*prefix, *key) if part))
            if not isinstance(word, str):
                raise RecipeError([Problem(name, shown, f"a setting is named by a text, not by {short(repr(word))}")])
            if len(prefix) + len(key) > DEEPEST or sum(map(len, key)) > LONGEST_NAME:
                raise RecipeError([Problem(name, shown, f"is no setting: names have up to {DEEPEST} parts")])
            if isinstance(value, Mapping):
                further.append((key, value))
            elif _depth(value) > DEEPEST:
                raise RecipeError([Problem(name, shown, "has lists inside of lists, which no setting takes")])
            else:
                found.append((key, value))
            if len(found) + len(waiting) + len(further) > MOST_SETTINGS:
                raise RecipeError([Problem(name, "", f"has more than {MOST_SETTINGS:,} settings, and no recipe has")])
        waiting += reversed(further)
    return found


def _depth(value: Any) -> int:
    """How deep lists and tables stand inside each other; it stops looking where it is too deep."""
    depth, level = 0, [value]
    while depth <= DEEPEST and (level := [inner for inner in level if isinstance(inner, Mapping | list | tuple)]):
        level = [inner for outer in level for inner in (outer.values() if isinstance(outer, Mapping) else outer)]
        depth += 1
    return depth


_HEADER = re.compile(r"^\s*\[\s*([^\[\]]+?)\s*\]")
_ASSIGNMENT = re.compile(r"^\s*([A-Za-z0-9_\-.\"' ]+?)\s*=")


def _line_numbers(text: str) -> dict[Key, int]:
    """The line of every table header and assignment. Only for messages: tomllib has read the file properly."""
    lines: dict[Key, int] = {}
    section: Key = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            section = _parts(header[1])
            lines[section] = number
        elif assignment := _ASSIGNMENT.match(line):
            lines[section + _parts(assignment[1])] = number
    return lines


def _parts(dotted: str) -> Key:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))
