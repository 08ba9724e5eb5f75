"""clearhead's own endpoints: run, score, look, models."""

import asyncio
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from pydantic_core import to_json
from starlette.responses import Response
from starlette.types import ASGIApp

from clearhead.serving.endpoints import Endpoint, ServedCall
from clearhead.serving.events import opened
from clearhead.serving.faults import Refused, TooLate
from clearhead.serving.limits import require_lines
from clearhead.serving.replies import JSON, json_reply
from clearhead.serving.shapes import LineAnswer, StreamPiece
from clearhead.serving.wire import (
    LookRequest,
    ModelsReply,
    RunReply,
    RunRequest,
    ScoreReply,
    ScoreRequest,
)


async def _run(call: ServedCall) -> ASGIApp:
    asked: RunRequest = call.body
    if asked.stream:
        return await _run_stream(call, asked)
    name = call.room.facts(asked.model).name
    wanted = asked.details or asked.n_best > 1
    found = await call.room.answer(
        name, asked.lines, settings=asked.settings, n_best=asked.n_best, details=wanted, first=asked.first
    )
    content: dict[str, Any] = {"model": name, "answers": [line.text for line in found]}
    if wanted:
        content["results"] = [_result(line) for line in found]
    return json_reply(content)


async def _run_stream(call: ServedCall, asked: RunRequest) -> ASGIApp:
    require_lines(asked.lines, call.settings)  # the room would call the one line "line"
    if len(asked.lines) != 1:
        raise Refused("stream", "one line is answered piece by piece, not several")
    if asked.n_best > 1:
        raise Refused("n_best", "a stream has one answer")
    if asked.first:
        raise Refused("first", "a stream is no part of a file")
    pieces = call.room.stream(asked.model, asked.lines[0], settings=asked.settings)
    return await opened(pieces, _event, call.path)


def _event(piece: StreamPiece) -> Iterator[bytes]:
    yield to_json({"done": _result(piece["done"])} if "done" in piece else piece, inf_nan_mode="null")


def _result(line: LineAnswer) -> dict[str, Any]:
    return {"answers": line.answers, "warnings": line.warnings}


async def _score(call: ServedCall) -> ASGIApp:
    asked: ScoreRequest = call.body
    facts = call.room.facts(asked.model)
    return json_reply({"model": facts.name, "scores": await call.room.score(facts.name, asked.rows)})


async def _look(call: ServedCall) -> ASGIApp:
    asked: LookRequest = call.body
    document = await call.room.look_as_json(
        asked.model,
        asked.line,
        target=asked.target,
        at=asked.at,
        against=asked.against,
        without=asked.without,
        n_best=asked.n_best,
        heads=asked.heads,
        show=asked.show,
        settings=asked.settings,
    )
    return Response(document, media_type=JSON)


async def _models(call: ServedCall) -> ASGIApp:
    return json_reply({"models": [asdict(facts) for facts in call.room.models()]})


async def _about(call: ServedCall) -> ASGIApp:
    try:
        async with asyncio.timeout(call.settings.deadline_seconds):
            return json_reply(await call.room.about(call.params["name"]))
    except TimeoutError:
        raise TooLate("this takes longer than the deadline now: the machine is busy") from None


ENDPOINTS = [
    Endpoint(
        "POST",
        "/api/run",
        "Answer lines, as clearhead run does; with stream, one line piece by piece.",
        _run,
        takes=RunRequest,
        gives=RunReply,
    ),
    Endpoint("POST", "/api/score", "log p of given rows.", _score, takes=ScoreRequest, gives=ScoreReply),
    Endpoint("POST", "/api/look", "Answer one line, and what happened inside.", _look, takes=LookRequest),
    Endpoint("GET", "/api/models", "The models.", _models, gives=ModelsReply),
    Endpoint("GET", "/api/models/{name}", "Recipe, cost and run of a model.", _about),
]
