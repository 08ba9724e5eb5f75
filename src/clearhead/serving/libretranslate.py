"""LibreTranslate's endpoints, for its clients and the programs that already speak to it.

A model that is named like ``de-en`` translates from de to en. Any other model is a language of its own name, which
whatever is asked can be translated to.
"""

from collections.abc import Sequence

from starlette.types import ASGIApp

from clearhead.serving.endpoints import Endpoint, ServedCall
from clearhead.serving.faults import Fault
from clearhead.serving.limits import require_lines
from clearhead.serving.replies import json_reply
from clearhead.serving.shapes import LineAnswer, ModelFacts
from clearhead.serving.wire import LanguageEntry, TranslateReply, TranslateRequest

ANY = "auto"


class NoSuchLanguage(Fault):
    """A language, or a pair of them, that no model has; LibreTranslate's status for it."""

    status, code = 400, "unknown_language"


async def _translate(call: ServedCall) -> ASGIApp:
    asked: TranslateRequest = call.body
    lines = [asked.q] if isinstance(asked.q, str) else asked.q
    require_lines(lines, call.settings, "q")
    if asked.format != "text":
        raise NoSuchLanguage(f"format must be text: markup is not translated, and {asked.format!r} would be damaged")
    model = chosen(translators(call.room.models()), asked.source, asked.target)
    found = await call.room.answer(model.name, lines, n_best=asked.alternatives + 1, details=asked.alternatives > 0)
    single = isinstance(asked.q, str)
    content: dict[str, object] = {"translatedText": found[0].text if single else [line.text for line in found]}
    if asked.alternatives:
        others = [_others(line) for line in found]
        content["alternatives"] = others[0] if single else others
    return json_reply(content)


def _others(line: LineAnswer) -> list[str]:
    return [str(answer["text"]) for answer in line.answers[1:]]


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
