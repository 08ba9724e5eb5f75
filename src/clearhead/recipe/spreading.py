"""Shared settings: ``model.layers = 4`` stands for ``model.encoder.layers = 4`` and ``model.decoder.layers = 4``."""

from clearhead.recipe.parts import Parts, meaning, shared_names, slot_of, word
from clearhead.recipe.registry import kinds
from clearhead.recipe.settings import Given, Key, Settings, put
from clearhead.recipe.spec import KindSpec


def spread(settings: Settings, parts: Parts, known: Parts) -> tuple[Settings, Settings]:
    """The shared settings of ``[model]``, written into every part that takes them; and all other settings.

    ``parts`` are those of the whole recipe, ``known`` those up to this level. What only the latter take was right when
    it was written, and means nothing now; what neither take is among the others, to be reported.
    """
    spread_out: Settings = {}
    own: Settings = {}
    shared = shared_names()
    for key, given in settings.items():
        name = key[1] if len(key) >= 2 and key[0] == "model" else ""
        if name in shared:
            meant = {meaning(spec, name) for spec in known.values()} - {None}
            takes = {part: meaning(spec, name) for part, spec in _parts_with_kind(parts, key, given).items()}
            for part, here in takes.items():
                if here is not None and (here in meant or not meant):
                    put(spread_out, _with_attention(("model", part, *key[1:])), given)
            if not meant and not any(takes.values()):
                put(own, key, given)
        else:
            put(own, _with_attention(key) if name in (*parts, "cross") else key, given)
    return spread_out, own


def _parts_with_kind(parts: Parts, key: Key, given: Given) -> Parts:
    """For ``model.attention.kind = luong``: the parts that have this kind, if some have it; otherwise all parts.

    A kind of attention may say that only some of them are meant.
    """
    if key[2:] != (KindSpec.tag,):
        return parts
    slots = {part: slot_of(spec, key[1]) for part, spec in parts.items()}
    having = {
        part: kinds(slot)[word(given)].spec for part, slot in slots.items() if slot and word(given) in kinds(slot)
    }
    meant = [part for part, kind in having.items() if part in getattr(kind, "shared_by", parts)]
    return {part: parts[part] for part in meant or having or parts}


def _with_attention(key: Key) -> Key:
    """``model.encoder.heads`` is short for ``model.encoder.attention.heads``."""
    return (*key[:2], "attention", "heads") if len(key) == 3 and key[2] == "heads" else key
