"""A room without models, in this process: answers are the lines in capitals, or whatever a test puts in its place."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from clearhead.serving.faults import Fault, Refused, UnknownModel
from clearhead.serving.limits import require_lines, require_rows, require_text
from clearhead.serving.room import Room
from clearhead.serving.settings import ServeSettings
from clearhead.serving.shapes import LineAnswer, LineScore, ModelFacts, RoomState, StreamPiece, TracedToken


def facts(name: str, family: str = "seq2seq", **others: Any) -> ModelFacts:
    known: dict[str, Any] = {
        "fingerprint": "f" * 64,
        "parameters": 1_000,
        "reads": "text",
        "columns": ("text",) if family == "lm" else ("source", "target"),
        "sides": {"source": "characters"},
        "direction": None,
        "labels": (),
        "mask": None,
        "streams": True,
        "beam_size": 1,
        "decoding": {"beam_size": 1},
        "loaded": 1_700_000_000.0,
        "ready": True,
    }
    return ModelFacts(name=name, family=family, **(known | others))


MODELS = [facts("shout"), facts("de-en", direction=("de", "en")), facts("writer", "lm")]


class FakeRoom(Room):
    """A room that answers at once, unless ``hold`` is set: then it waits for it, and counts who waits and who left."""

    def __init__(self, settings: ServeSettings | None = None, models: Sequence[ModelFacts] = MODELS) -> None:
        self.settings = settings or ServeSettings()
        self.served = list(models)
        self.calls: list[tuple[str, Any]] = []
        self.fault: Fault | None = None
        self.hold: asyncio.Event | None = None
        self.waiting = self.cancelled = self.reloaded = 0
        self.entered = asyncio.Event()
        self.left = asyncio.Event()
        self.started = self.stopped = False

    async def start(self) -> None:
        self.started = True

    async def stop(self, grace: float | None = None) -> None:
        self.stopped = True

    async def reload(self) -> dict[str, str]:
        self.reloaded += 1
        return {one.name: "as it was" for one in self.served}

    def models(self) -> list[ModelFacts]:
        return self.served

    def facts(self, model: str | None) -> ModelFacts:
        for one in self.served:
            if model in (None, one.name):
                return one
        raise UnknownModel("no model has this name")

    def state(self) -> RoomState:
        return RoomState(
            ready=True,
            stopping=False,
            workers=2,
            workers_alive=2,
            workers_restarted=0,
            waiting_lines=3,
            working_lines=4,
            open_streams=0,
            waiting_looks=0,
            batches=3,
            batch_sizes={1: 1, 4: 2},
            answered_lines=9,
            characters_read=70,
            tokens_written=50,
            requests={"answered": 2, "busy": 1},
            reloads=0,
            troubles={},
        )

    async def about(self, model: str | None) -> dict[str, Any]:
        return {"name": self.facts(model).name, "recipe": "", "cost": {}, "run": None}

    async def _at_work(self, kind: str, what: Any) -> None:
        self.calls.append((kind, what))
        if self.fault is not None:
            raise self.fault
        if self.hold is not None:
            self.waiting += 1
            self.entered.set()
            try:
                await self.hold.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                self.left.set()
                raise
            finally:
                self.waiting -= 1

    async def answer(
        self,
        model: str | None,
        lines: Sequence[str],
        *,
        settings: Mapping[str, Any] | None = None,
        n_best: int = 1,
        details: bool = True,
        verbatim: bool = False,
        first: int = 0,
        deadline: float | None = None,
    ) -> list[LineAnswer]:
        self.facts(model)
        if settings and "beam_sise" in settings:
            raise Refused("settings.beam_sise", "settings.beam_sise: unknown; did you mean beam_size?")
        require_lines(lines, self.settings)
        if n_best > self.settings.n_best:
            raise Refused("n_best", f"is {n_best}, and may be 1 to {self.settings.n_best}")
        await self._at_work("answer", {"lines": list(lines), "settings": settings, "n_best": n_best})
        return [LineAnswer([_answer(line, rank) for rank in range(n_best)]) for line in lines]

    async def stream(
        self,
        model: str | None,
        line: str,
        *,
        settings: Mapping[str, Any] | None = None,
        verbatim: bool = False,
        deadline: float | None = None,
    ) -> AsyncGenerator[StreamPiece, None]:
        self.facts(model)
        if settings and settings.get("beam_size", 1) > 1:
            raise Refused("settings.beam_size", "settings.beam_size: a beam decides only at the end")
        require_text(line, self.settings, "line")
        try:
            await self._at_work("stream", line)
            for letter in line.upper():
                yield {"text": letter}
            yield {"done": LineAnswer([_answer(line, 0)])}
        finally:
            self.left.set()

    async def score(
        self, model: str | None, rows: Sequence[Sequence[str]], *, deadline: float | None = None
    ) -> list[LineScore]:
        require_rows(rows, self.facts(model).columns, self.settings)
        await self._at_work("score", rows)
        return [
            {"log_probability": -1.5, "tokens": list(row[-1]), "token_log_probabilities": [-0.5], "warnings": []}
            for row in rows
        ]

    async def trace(
        self, model: str | None, prompt: str, ids: Sequence[int] = (), *, top: int = 0, deadline: float | None = None
    ) -> list[TracedToken]:
        read = [_traced(letter, given=True, top=top) for letter in prompt]
        if read:
            read[0]["log_probability"] = None
        return [*read, *(_traced(chr(one), given=False, top=top) for one in ids)]

    async def look(self, model: str | None, line: str, **others: Any) -> dict[str, Any]:
        self.facts(model)
        for where, text in (("line", line), ("target", others.get("target")), ("against", others.get("against"))):
            require_text(text, self.settings, where)
        await self._at_work("look", {"line": line, **others})
        links = [[place, place] for place in range(len(line))]
        return {"text": line, "source": list(line), "answer": list(line.upper()), "alignment": links}

    async def look_as_json(self, model: str | None, line: str, **others: Any) -> str:
        return json.dumps(await self.look(model, line, **others))


def _answer(line: str, rank: int) -> dict[str, Any]:
    text = line.upper() + "!" * rank
    return {
        "text": text,
        "log_probability": -float(rank),
        "score": float("nan"),
        "finished": True,
        "ids": [ord(letter) for letter in text],
        "tokens": list(text),
    }


def _traced(letter: str, *, given: bool, top: int) -> TracedToken:
    likely = {letter: -0.5, "?": -1.5}
    return {"text": letter, "log_probability": -0.5, "top": dict(list(likely.items())[:top]), "given": given}
