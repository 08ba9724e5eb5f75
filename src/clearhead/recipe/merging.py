"""From several levels of settings to one: the higher level wins, and a new kind keeps the settings that it knows."""

from collections.abc import Sequence
from typing import Any

from clearhead.recipe.parts import Parts, meaning, parts_of, slot_of, word
from clearhead.recipe.registry import kinds
from clearhead.recipe.settings import COMMAND_LINE, SETTINGS, Given, Key, Settings, put_all
from clearhead.recipe.spec import KindSpec
from clearhead.recipe.spreading import spread
from clearhead.recipe.stack import StackSpec

BUDGETS = tuple(("training", name) for name in ("steps", "epochs", "minutes"))


def merged(levels: Sequence[Settings]) -> tuple[Settings, Parts]:
    """One flat set of settings out of all levels, the lowest first; and the parts of the model that they describe.

    Shared settings stand under each part that takes them.
    """
    parts = parts_of(levels)
    settings: Settings = {}
    lower: Parts = {}
    for number, level in enumerate(levels, start=1):
        known = parts_of(levels[:number])
        if any(key in BUDGETS and given.value is not None for key, given in level.items()):
            # a budget replaces the one of a recipe, whatever it is in; two that are asked for contradict each other
            asked = (COMMAND_LINE, SETTINGS)
            settings = {key: given for key, given in settings.items() if key not in BUDGETS or given.source in asked}
        shared, own = spread(level, parts, known)
        settings = _over(_without_other_parts(settings, lower, known), _over(shared, own, parts), known)
        lower = known
    return _with_own_positions(settings, parts), parts


def _over(lower: Settings, upper: Settings, parts: Parts) -> Settings:
    """Both together; where they contradict each other, the upper ones."""
    settings = dict(lower)
    for key, given in upper.items():
        if key == ("model", "family"):
            settings = _without_other_kinds(settings, key[:-1], "family", given.value)
        elif len(key) == 4 and key[-1] == KindSpec.tag and key[1] in parts and (slot := slot_of(parts[key[1]], key[2])):
            settings = _without_other_kinds(settings, key[:-1], slot, given.value)
    put_all(settings, upper)
    return settings


def _without_other_parts(settings: Settings, lower: Parts, parts: Parts) -> Settings:
    """Drop what lower levels say of a part whose kind is another one now, or that is gone; what no kind knows stays."""
    kept = dict(settings)
    for part, old in lower.items():
        new = parts.get(part)
        if new is old:
            continue
        for key in [key for key in kept if key[:2] == ("model", part)]:
            meant = meaning(old, key[2]) if len(key) > 2 else None
            if new is None or key[2:] == (StackSpec.tag,) or (meant and meaning(new, key[2]) != meant):
                del kept[key]
    return kept


def _without_other_kinds(settings: Settings, table: Key, slot: str, kind: Any) -> Settings:
    """Drop from a table what only other kinds know: it means nothing to this one.

    What no kind knows stays, to be reported.
    """
    fields = {name: set(entry.spec.model_fields) for name, entry in kinds(slot).items()}
    if not isinstance(kind, str) or kind not in fields:
        return settings
    foreign = set().union(*fields.values()) - fields[kind]
    depth = len(table)
    # a family may have no output matrix, or no source: what a preset says of them is not the user's mistake
    outputs = [(*table, "embedding", name) for name in ("tie", "output_bias", "output_scale")]
    old = settings.get((*table, "family"))
    switched = outputs if slot == "family" and old is not None and old.value != kind else []
    return {
        key: given
        for key, given in settings.items()
        if (key[:depth] != table or len(key) <= depth or key[depth] not in foreign) and key not in switched
    }


def _with_own_positions(settings: Settings, parts: Parts) -> Settings:
    """Positions are none where attention brings its own, unless the user asks for some.

    What a preset says of positions was said of the preset's attention: it does not count if the attention is changed.
    """
    changed = dict(settings)
    for part, spec in parts.items():
        given = settings.get(("model", part, "attention", KindSpec.tag))
        kind = None if given is None else kinds("attention").get(word(given))
        if given is None or not getattr(kind and kind.spec, "brings_position", False) or not slot_of(spec, "position"):
            continue
        said = {key: other for key, other in settings.items() if key[:3] == ("model", part, "position")}
        if all(given.chosen and not other.chosen and other.source != given.source for other in said.values()):
            changed = {key: other for key, other in changed.items() if key not in said}
            none = Given("none", given.key, given.source, given.line, given.order)
            changed["model", part, "position", KindSpec.tag] = none
    return changed
