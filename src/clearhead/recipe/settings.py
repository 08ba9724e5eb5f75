"""Settings as one flat table: ``("model", "encoder", "layers") → Given(4, "model.layers", "recipe.toml", 7)``.

Each value remembers where it was written, which makes merging, spreading and error messages simple.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clearhead.errors import Problem, RecipeError
from clearhead.recipe.describing import short

Key = tuple[str, ...]


@dataclass(frozen=True)
class Given:
    """A value and where the user wrote it."""

    value: Any
    key: str
    """As written, such as ``model.layers``."""
    source: str
    """``recipe.toml``, ``command line``, ``settings``, ``preset tiny``."""
    line: int = 0
    """The line of a file; 0 if there are no lines."""
    order: int = 0
    """The number of a command-line argument, to report problems in the order they were typed."""
    stated: bool = True
    """False for what a ``Recipe`` object merely has by default."""

    @property
    def where(self) -> str:
        """Source and line, as an error names them."""
        return f"{self.source}, line {self.line}" if self.line else self.source

    @property
    def chosen(self) -> bool:
        """Whether the user chose this very value: neither a default nor a preset's setting."""
        return self.stated and not self.source.startswith(PRESET)


Settings = dict[Key, Given]
Tree = dict[str, "Tree | Given"]
"""The same settings, nested like the recipe."""

PRESET = "preset "
"""What the source of a preset's settings begins with; its name follows."""
COMMAND_LINE, SETTINGS = "command line", "settings"
"""The sources of changes: as text, and as Python objects."""
MOST_SETTINGS = 2_000
"""A complete recipe has about 150."""
LONGEST_NAME = 200
"""Characters of a setting's full name; the longest that means something has about 40."""
DEEPEST = 8
"""Tables inside tables, lists included; recipes go to 5."""


_SPELT_OUT: dict[Key, str] = {("training", "adapters"): "kind"}
"""Tables that may be written as a word, and the setting that the word is."""


def put(settings: Settings, key: Key, given: Given) -> None:
    """Set a value; it replaces the table that stood there, and any value that stood where it needs a table."""
    key = _spelt_out(key, given)
    if key not in settings:  # where it stands already, nothing is in its way
        depth = len(key)
        for length in range(depth):
            settings.pop(key[:length], None)
        for other in [other for other in settings if other[:depth] == key]:
            del settings[other]
    settings[key] = given


def put_all(settings: Settings, upper: Settings) -> None:
    """Set values of which none stands where another needs a table: in one pass, as a recipe has many."""
    upper = {_spelt_out(key, given): given for key, given in upper.items()}
    tables = {key[:length] for key in upper if key not in settings for length in range(len(key))}
    if tables:
        for other in [other for other in settings if other in tables or _inside(other, upper)]:
            del settings[other]
    settings.update(upper)


def _inside(key: Key, settings: Settings) -> bool:
    """Whether a table that this key belongs to is set to a value."""
    return any(key[:length] in settings for length in range(1, len(key)))


def _spelt_out(key: Key, given: Given) -> Key:
    return (*key, _SPELT_OUT[key]) if key in _SPELT_OUT and isinstance(given.value, str) else key


def nested(settings: Settings) -> Tree:
    """The settings as tables inside tables."""
    tree: Tree = {}
    for key, given in settings.items():
        node = tree
        for name in key[:-1]:
            child = node.setdefault(name, {})
            assert isinstance(child, dict)  # put() removes a value that stands where a table is needed
            node = child
        node[key[-1]] = given
    return tree


def leaves(table: Mapping[str, Any], name: str, prefix: Key = ()) -> list[tuple[Key, Any]]:
    """The values of nested tables with their full names; a table without settings says nothing.

    What is too large or too deep to be a recipe is refused; ``name`` says whose it is. ``prefix`` counts for the depth
    and is shown, but is not part of the names.
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
