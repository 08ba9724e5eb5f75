"""Which parts a model has, each of which kind, and what a setting means to them."""

from collections.abc import Sequence
from difflib import get_close_matches

from clearhead.recipe.model import ModelSpec, Recipe, Seq2SeqSpec
from clearhead.recipe.registry import kinds
from clearhead.recipe.settings import Given, Settings
from clearhead.recipe.spec import KindSpec, Spec, spec_type
from clearhead.recipe.stack import CrossSpec, DecoderSpec, StackSpec

Parts = dict[str, type[Spec]]
"""Encoder, decoder and cross-attention, as far as a model has them, each with the spec of its kind."""


def parts_of(levels: Sequence[Settings]) -> Parts:
    """The parts of the model that these levels of settings describe together, the highest one last."""
    family = _family(levels)
    parts: Parts = {}
    for name, field in family.model_fields.items():
        base = spec_type(field)
        if base is not None and issubclass(base, StackSpec):
            parts[name] = _kind_of_part(levels, family, name, base)
        elif base is not None and issubclass(base, CrossSpec):
            parts[name] = base
    decoder = parts.get("decoder")
    if decoder is not None and issubclass(decoder, DecoderSpec) and not decoder.crosses:
        parts.pop("cross", None)
    return parts


def _family(levels: Sequence[Settings]) -> type[ModelSpec]:
    """The family that the highest level names; an unknown one is reported later, with its place."""
    for level in reversed(levels):
        if given := level.get(("model", "family")):
            kind = kinds("family").get(word(given))
            if kind is not None and issubclass(kind.spec, ModelSpec):
                return kind.spec
    return Seq2SeqSpec


def _kind_of_part(levels: Sequence[Settings], family: type[ModelSpec], part: str, base: type[StackSpec]) -> type[Spec]:
    """The kind that the highest level names; another family forgets the kinds that lower levels name."""
    for number in reversed(range(len(levels))):
        given = levels[number].get(("model", part, base.tag))
        if given is not None and word(given) in kinds(base.slot):
            return kinds(base.slot)[word(given)].spec
        if _family(levels[:number]) is not family:
            break
    default: type[Spec] = type(family.model_fields[part].default)
    return default


def word(given: Given) -> str:
    """The name of a kind; an empty text for anything that cannot be one."""
    return given.value if isinstance(given.value, str) else ""


def slot_of(spec: type[Spec], name: str) -> str:
    """The slot of a field that takes one of several kinds; "" for any other field."""
    inner = spec_type(spec.model_fields[name]) if name in spec.model_fields else None
    return inner.slot if inner is not None and issubclass(inner, KindSpec) else ""


def meaning(spec: type[Spec], name: str) -> tuple[str, str] | None:
    """A setting that a part takes, and for a table of kinds their slot: the same word may mean different slots."""
    if name == "heads":
        return ("heads", "attention") if slot_of(spec, "attention") == "attention" else None
    if name in spec.own:
        return None
    return (name, slot_of(spec, name)) if name in spec.model_fields else None


def shared_names() -> set[str]:
    """What may be written once under ``[model]``: every setting of some kind of encoder or decoder."""
    stacks = [entry.spec for slot in ("encoder", "decoder") for entry in kinds(slot).values()]
    return {"heads"}.union(*(spec.model_fields for spec in stacks)) - {StackSpec.tag}


def full_names(name: str) -> list[str]:
    """The settings that a name without its section may stand for: ``model.width`` for ``width``, or for ``widht``."""
    specs = {section: spec_type(field) for section, field in Recipe.model_fields.items()}
    known = {section: set(spec.model_fields) for section, spec in specs.items() if spec is not None}
    known["model"] = shared_names().union(*(kind.spec.model_fields for kind in kinds("family").values()))
    names = set().union(*known.values())
    if name in known:  # a section itself
        return []
    if name not in names:
        name = "".join(get_close_matches(name[:100], sorted(names), n=1, cutoff=0.75))
    return [f"{section}.{name}" for section, fields in known.items() if name in fields]
