"""OpenAI's completions, for language models: the client packages of OpenAI and what is built on them talk to it."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import uuid4

from pydantic_core import to_json
from starlette.types import ASGIApp

from clearhead.serving.endpoints import Endpoint, ServedCall
from clearhead.serving.events import opened
from clearhead.serving.faults import Fault, Refused, TooLate, UnknownModel
from clearhead.serving.limits import require_lines
from clearhead.serving.replies import json_reply
from clearhead.serving.room import Room
from clearhead.serving.shapes import LineAnswer, ModelFacts, TracedToken
from clearhead.serving.stopping import StopFilter, cut_at
from clearhead.serving.wire import CompletionReply, CompletionRequest, OpenAIModel, OpenAIModels

PROMPTS = 128
"""Prompts of one request."""
STOPS = 4
"""Stop sequences of one request, as OpenAI allows."""
STOP_CHARACTERS = 200
SEEDS = 2**63
Result = TypeVar("Result")


@dataclass(frozen=True)
class Completion:
    """One completion."""

    text: str
    finish: str
    tokens: int
    """Tokens that were written."""
    logprobs: dict[str, Any] | None
    prompt_tokens: int


@dataclass(frozen=True)
class Completing:
    """One request for completions, with its neutral values filled in."""

    room: Room
    asked: CompletionRequest
    model: str
    prompts: list[str]
    stops: list[str]
    settings: dict[str, Any]
    seed: int | None
    """Where the draws of the first prompt begin; None if nothing is drawn."""
    until: float
    """The end of the time for all of it, by the clock of the loop."""
    joint: str
    """What stands between a prompt and its completion: a space where tokens are words, else nothing."""
    head: dict[str, Any]
    """What every response and every event begins with."""

    def echoed(self, prompt: str) -> str:
        """What stands before the completion of a prompt."""
        return prompt + (self.joint if prompt else "") if self.asked.echo else ""

    def settings_of(self, index: int) -> dict[str, Any]:
        """Settings for a prompt: each has draws of its own, which are the same whether they are streamed or not."""
        return self.settings if self.seed is None else self.settings | {"seed": (self.seed + index) % SEEDS}

    def left(self) -> float:
        """Seconds that are left."""
        return max(0.0, self.until - asyncio.get_running_loop().time())

    async def answers(self) -> list[LineAnswer]:
        """The answers to all prompts; together, if nothing is drawn."""
        if self.seed is None:
            return await self._answers(self.prompts, 0)
        found = await together(self._answers([prompt], index) for index, prompt in enumerate(self.prompts))
        return [answer for answers in found for answer in answers]

    async def _answers(self, prompts: list[str], index: int) -> list[LineAnswer]:
        settings = self.settings_of(index)
        return await self.room.answer(
            self.model, prompts, settings=settings, details=True, verbatim=True, deadline=self.left()
        )

    async def completion(self, prompt: str, answer: LineAnswer | None) -> Completion:
        """One completion; without an answer, only the prompt is read (``max_tokens=0``)."""
        best: dict[str, Any] = answer.answers[0] if answer else {"text": "", "ids": [], "finished": False}
        text, stopped = cut_at(best["text"], self.stops)
        finish = "stop" if stopped or best["finished"] else "length"
        top = self.asked.logprobs or 0
        traced = await self.room.trace(self.model, prompt, best["ids"], top=top, deadline=self.left())
        whole = self.echoed(prompt) + text if answer or not self.asked.echo else prompt
        logprobs = None
        if self.asked.logprobs is not None:
            echo = bool(self.asked.echo)
            logprobs = _logprobs(traced, echo=echo, length=len(text), top=self.asked.logprobs, joint=self.joint)
        return Completion(whole, finish, len(best["ids"]), logprobs, sum(token["given"] for token in traced))

    async def prompt_tokens(self) -> int:
        """Tokens of all prompts."""
        traced = await together(self.room.trace(self.model, prompt, deadline=self.left()) for prompt in self.prompts)
        return sum(token["given"] for tokens in traced for token in tokens)


async def together(work: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """All results, in order; if one fails, the others are cancelled."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
    except* Fault as faults:
        raise faults.exceptions[0] from None
    return [task.result() for task in tasks]


async def _completions(call: ServedCall) -> ASGIApp:
    asked: CompletionRequest = call.body
    prompts = [asked.prompt] if isinstance(asked.prompt, str) else asked.prompt
    require_lines(prompts, call.settings, "prompt")
    if not 1 <= len(prompts) <= PROMPTS:
        raise Refused("prompt", f"a list has 1 to {PROMPTS} texts")
    facts = call.room.facts(asked.model)
    if facts.family != "lm":
        raise Refused(
            "model", f"{facts.name} is of family {facts.family}, and completions need a language model: use /api/run"
        )
    stops = [asked.stop] if isinstance(asked.stop, str) else list(asked.stop or ())
    if len(stops) > STOPS or not all(0 < len(stop) <= STOP_CHARACTERS for stop in stops):
        raise Refused("stop", f"at most {STOPS} sequences of 1 to {STOP_CHARACTERS} characters")
    most = max(call.settings.answer_tokens, facts.decoding.get("max_length") or 0)
    if asked.max_tokens is not None and asked.max_tokens > most:
        raise Refused("max_tokens", f"is {asked.max_tokens:,}, and this server allows up to {most:,}")
    settings = _decoding(asked)
    seed = None
    if settings.get("sample", facts.decoding.get("sample", False)):
        seed = secrets.randbelow(SEEDS) if asked.seed is None else asked.seed % SEEDS
    until = asyncio.get_running_loop().time() + call.settings.deadline_seconds
    head = {"id": f"cmpl-{uuid4().hex}", "object": "text_completion", "created": int(time.time()), "model": facts.name}
    joint = " " if "symbols" in facts.sides.values() else ""
    request = Completing(call.room, asked, facts.name, prompts, stops, settings, seed, until, joint, head)
    if asked.stream:
        return await _streamed(request)
    try:
        return await _whole(request)
    except TooLate:  # of a part of it, which had less time
        raise TooLate(f"the answer was not ready within {call.settings.deadline_seconds:g} seconds") from None


def _decoding(asked: CompletionRequest) -> dict[str, Any]:
    """Settings of ``[decoding]``: what is not asked for stays as in the recipe, except that no beam is used."""
    found: dict[str, Any] = {"beam_size": 1}
    if asked.max_tokens:
        found["max_length"] = asked.max_tokens
    if asked.temperature is not None:
        found["sample"] = asked.temperature > 0
        if asked.temperature > 0:
            found["temperature"] = max(asked.temperature, 0.001)
    if asked.top_p is not None:
        found["top_p"] = asked.top_p
    return found


async def _whole(request: Completing) -> ASGIApp:
    found: Sequence[LineAnswer | None] = [None] * len(request.prompts)
    if request.asked.max_tokens != 0:
        found = await request.answers()
    pairs = zip(request.prompts, found, strict=True)
    completions = await together(request.completion(prompt, answer) for prompt, answer in pairs)
    read = sum(completion.prompt_tokens for completion in completions)
    written = sum(completion.tokens for completion in completions)
    choices = [_told(completion, index) for index, completion in enumerate(completions)]
    return json_reply(request.head | {"choices": choices, "usage": _usage(read, written)})


def _told(completion: Completion, index: int) -> dict[str, Any]:
    return {
        "text": completion.text,
        "index": index,
        "logprobs": completion.logprobs,
        "finish_reason": completion.finish,
    }


def _usage(read: int, written: int) -> dict[str, int]:
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _logprobs(traced: Sequence[TracedToken], *, echo: bool, length: int, top: int, joint: str) -> dict[str, Any]:
    """OpenAI's table of log-probabilities; what stands after a stop sequence is left out.

    The first token of a completion may begin with the joint, which the completion's text does not have.
    """
    told: dict[str, list[Any]] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    prompt = sum(len(token["text"]) for token in traced if token["given"])
    first = next((token["text"] for token in traced if not token["given"]), "")
    prompt += len(joint) if prompt and first.startswith(joint) else 0
    offset = 0
    for token in traced:
        begins, offset = offset, offset + len(token["text"])
        if not token["given"] and begins - prompt >= length:
            break
        if token["given"] and not echo:
            continue
        told["tokens"].append(token["text"])
        told["token_logprobs"].append(token["log_probability"])
        told["top_logprobs"].append(token["top"] or None)
        told["text_offset"].append(begins if echo else max(0, begins - prompt))
    return told | ({} if top else {"top_logprobs": None})


async def _streamed(request: Completing) -> ASGIApp:
    asked = request.asked
    if asked.logprobs is not None:
        raise Refused("logprobs", "a stream has none; ask without stream")
    if asked.max_tokens == 0:
        raise Refused("max_tokens", "a stream of 0 tokens says nothing; ask without stream")
    usage = asked.stream_options is not None and asked.stream_options.include_usage
    read = await request.prompt_tokens() if usage else None

    def words(item: dict[str, Any] | None) -> Iterator[bytes]:
        yield b"[DONE]" if item is None else to_json(request.head | item)

    return await opened(_parts(request, read), words, "/v1/completions")


async def _parts(request: Completing, read: int | None) -> AsyncIterator[dict[str, Any] | None]:
    """What the events say: pieces of text, the end of each completion, the usage if wanted; None at the very end."""
    written = 0
    for index, prompt in enumerate(request.prompts):
        held, so_far = StopFilter(request.stops), 0
        pieces = request.room.stream(request.model, prompt, settings=request.settings_of(index), verbatim=True)
        finish, echo = "length", request.echoed(prompt)
        try:
            async for piece in pieces:
                if echo:  # not before the first piece, which may be a refusal
                    yield _part(echo, index)
                    echo = ""
                if "done" in piece:
                    best = piece["done"].answers[0]
                    finish = "stop" if best.get("finished") else "length"
                    so_far = len(best.get("ids", ()))
                else:
                    so_far += 1  # a piece is a token, unless a character takes several
                    if text := held.pass_on(piece["text"]):
                        yield _part(text, index)
                if held.stopped:
                    finish = "stop"
                    break
        finally:
            await pieces.aclose()
        written += so_far
        yield _part(held.rest(), index, finish)
    if read is not None:
        yield {"choices": [], "usage": _usage(read, written)}
    yield None


def _part(text: str, index: int, finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"text": text, "index": index, "logprobs": None, "finish_reason": finish}]}


def _described(facts: ModelFacts) -> dict[str, Any]:
    return {"id": facts.name, "object": "model", "created": int(facts.loaded), "owned_by": "clearhead"}


async def _models(call: ServedCall) -> ASGIApp:
    data = [_described(facts) for facts in call.room.models() if facts.family == "lm"]
    return json_reply({"object": "list", "data": data})


async def _model(call: ServedCall) -> ASGIApp:
    facts = call.room.facts(call.params["name"])
    if facts.family != "lm":
        raise UnknownModel(f"{facts.name} is of family {facts.family}, and completions need a language model")
    return json_reply(_described(facts))


ENDPOINTS = [
    Endpoint(
        "POST",
        "/v1/completions",
        "Continue prompts with a language model, as OpenAI does.",
        _completions,
        takes=CompletionRequest,
        gives=CompletionReply,
    ),
    Endpoint("GET", "/v1/models", "The language models, as OpenAI lists models.", _models, gives=OpenAIModels),
    Endpoint("GET", "/v1/models/{name}", "A language model, as OpenAI describes one.", _model, gives=OpenAIModel),
]
