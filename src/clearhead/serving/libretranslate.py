"""LibreTranslate's endpoints, for its clients and the programs that already speak to it.

A model that is named like ``de-en`` translates from de to en. Any other model is a language of its own name, which
whatever is asked can be translated to.
"""

from collections.abc import Sequence
from typing import Any

from starlette.types import ASGIApp

from clearhead.serving.endpoints import Endpoint, ServedCall
from clearhead.serving.faults import Fault, Refused
from clearhead.serving.limits import require_lines
from clearhead.serving.replies import json_reply
from clearhead.serving.room import Room
from clearhead.serving.shapes import ModelFacts
from clearhead.serving.wire import LanguageEntry, TranslateReply, TranslateRequest

ANY = "auto"
ALIGNED = 16
"""Texts of a request that alignments are made of: each is a look of its own."""


class NoSuchLanguage(Fault):
    """A language, or a pair of them, that no model has; LibreTranslate's status for it."""

    status, code = 400, "unknown_language"


async def _translate(call: ServedCall) -> ASGIApp:
    asked: TranslateRequest = call.body
    lines = [asked.q] if isinstance(asked.q, str) else asked.q
    require_lines(lines, call.settings, "q")
    if asked.format != "text":
        raise NoSuchLanguage(f"format must be text: markup is not translated, and {asked.format!r} would be damaged")
    if asked.alignments and len(lines) > ALIGNED:
        raise Refused("alignments", f"{len(lines):,} texts are too many: alignments are made of at most {ALIGNED}")
    model = chosen(translators(call.room.models()), asked.source, asked.target)
    details = asked.alternatives > 0 or asked.scores
    found = await call.room.answer(model.name, lines, n_best=asked.alternatives + 1, details=details)
    content: dict[str, list[Any]] = {"translatedText": [line.text for line in found]}
    if asked.alternatives:
        content["alternatives"] = [[answer["text"] for answer in line.answers[1:]] for line in found]
    if asked.scores:
        content["scores"] = [[answer["log_probability"] for answer in line.answers] for line in found]
    if asked.alignments:
        pairs = zip(lines, found, strict=True)
        content["alignments"] = [await _aligned(call.room, model.name, line, answer.text) for line, answer in pairs]
    single = isinstance(asked.q, str)
    return json_reply({name: values[0] if single else values for name, values in content.items()})


async def _aligned(room: Room, model: str, line: str, answer: str) -> dict[str, Any]:
    """Which token of a line each token of its answer comes from: a look, of which one is made at a time."""
    if not line.strip() or not answer:
        return {"source": [], "target": [], "links": []}
    document = await room.look(model, line.strip(), target=answer, n_best=1, show=[])
    if "alignment" not in document:
        raise Refused("alignments", document["refused"]["alignment"])
    return {"source": document["source"], "target": document["answer"], "links": document["alignment"]}


def translators(models: Sequence[ModelFacts]) -> list[ModelFacts]:
    """The models that write text for a text."""
    return [facts for facts in models if facts.reads == "text" and facts.streams and facts.family != "lm"]


def pair(facts: ModelFacts) -> tuple[str, str]:
    """From which language to which a model translates."""
    return facts.direction or (ANY, facts.name)


def chosen(models: Sequence[ModelFacts], source: str, target: str) -> ModelFacts:
    """The first model that translates from ``source`` (auto: from anything) to ``target`` (empty: to anything)."""
    for facts in models:
        theirs, ours = pair(facts)
        if target in ("", ours) and (ANY in (source, theirs) or source == theirs):
            return facts
    known = ", ".join(sorted(f"{one} → {other}" for one, other in map(pair, models)))
    raise NoSuchLanguage(f"no model translates from {source[:40]} to {target[:40]}; there are: {known or 'none'}")


async def _languages(call: ServedCall) -> ASGIApp:
    targets: dict[str, list[str]] = {}
    for source, target in map(pair, translators(call.room.models())):
        targets.setdefault(source, []).append(target)
        targets.setdefault(target, [])
    return json_reply([{"code": code, "name": code, "targets": found} for code, found in targets.items()])


ENDPOINTS = [
    Endpoint(
        "POST",
        "/translate",
        "Translate, as LibreTranslate does.",
        _translate,
        takes=TranslateRequest,
        gives=TranslateReply,
        key_in_body=True,
    ),
    Endpoint("GET", "/languages", "The languages, as LibreTranslate lists them.", _languages, key_in_body=True),
]
__all__ = ["ENDPOINTS", "LanguageEntry", "NoSuchLanguage", "chosen", "pair", "translators"]
