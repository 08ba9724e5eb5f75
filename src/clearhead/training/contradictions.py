"""``--resume`` continues a run with its own recipe: settings that are given again must not contradict it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from clearhead.errors import Problem
from clearhead.recipe import Recipe, Settings, recipe_table
from clearhead.training.manifest import Table

_DATA = ("train", "more", "dev", "test")
_RESOLVED_BUDGETS = (("training", "minutes"), ("training", "epochs"))
"""Settings that a resolved recipe no longer has: they were replaced by a number of steps."""
_LEFT_TO_DATA = (
    ("training", "batch_tokens"),
    ("training", "optimizer", "rate"),
    ("decoding", "length_penalty"),
    ("model", "joint", "order"),
)
"""Settings that the data decide where they are not stated: a value from before is not one that was asked for."""
Key = tuple[str, ...]


def contradictions(recipe: Recipe, given: Settings, asked: Table | None, resolved: Table) -> list[Problem]:
    """Find every given setting that differs from both the run's original and its resolved recipe.

    Only the settings in ``given`` are compared; the rest of ``recipe`` are defaults. ``asked`` is the run's original
    recipe; without it, settings that were resolved since cannot be compared and are accepted.
    """
    now = recipe_table(recipe)
    found: dict[str, list[tuple[Key, Any, Any]]] = {}
    for key, origin in given.items():
        wanted = _at(now, key)
        tables = [resolved] if asked is None or key in _LEFT_TO_DATA else [resolved, asked]
        has = [_at(table, key) for table in tables]
        unknown = asked is None and (wanted == "auto" or key in _RESOLVED_BUDGETS)
        if not unknown and not any(_same(key, wanted, value) for value in has):
            shown = next((value for value in has if value is not None), None)
            found.setdefault(origin.key, []).append((key, shown, wanted))
    return [problem for written, rows in found.items() for problem in _named(written, rows, resolved)]


def differences(run: Table, other: Table, whose: str) -> list[Problem]:
    """Find every setting in which two complete recipes differ."""
    keys = dict.fromkeys([*_leaves(run), *_leaves(other)])
    return [
        Problem("", ".".join(key), f"the run has {shown(_at(run, key))}, {whose} {shown(_at(other, key))}")
        for key in keys
        if _at(run, key) != _at(other, key)
    ]


def shown(value: Any) -> str:
    """Format a value for a message."""
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _named(written: str, rows: list[tuple[Key, Any, Any]], resolved: Table) -> Iterator[Problem]:
    """One problem for a setting that several parts share if they all have one value, otherwise one for each part."""
    if len({(str(has), str(wanted)) for _, has, wanted in rows}) == 1:
        rows = [(tuple(written.split(".")), *rows[0][1:])]
    for key, has, wanted in rows:
        note = f" ({resolved['training'].get('steps'):,} steps)" if has is None and key in _RESOLVED_BUDGETS else ""
        yield Problem("", ".".join(key), f"the run has {shown(has)}{note}, you ask for {shown(wanted)}")


def _same(key: Key, wanted: Any, has: Any) -> bool:
    if wanted == has:
        return True
    if key[0] != "data" or key[1] not in _DATA:
        return False
    return _files(wanted) == _files(has) != []


def _files(value: Any) -> list[Path]:
    """The files of a setting in ``[data]``, as absolute paths."""
    names = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return [Path(name).resolve() for name in names]


def _at(table: Mapping[str, Any], key: Key) -> Any:
    value: Any = table
    for name in key:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _leaves(table: Mapping[str, Any], prefix: Key = ()) -> Iterator[Key]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*prefix, name))
        else:
            yield (*prefix, name)
