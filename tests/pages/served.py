"""Models that are served in this process: the real application and page, the real work, but no processes."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from clearhead.models import build
from clearhead.predictor import Predictor, predictor_of
from clearhead.recipe import read_recipe
from clearhead.serving.faults import Fault, Refused
from clearhead.serving.loading import Loaded, described
from clearhead.serving.settings import ServeSettings
from clearhead.serving.shapes import LineAnswer, ModelFacts, StreamPiece
from clearhead.serving.work import Stream, answer, look
from tests.inspection.test_view import SMALL, predictor
from tests.models.zoo import IMAGES
from tests.serving.fake import FakeRoom

if TYPE_CHECKING:
    import asyncio


def _drawn(channels: int) -> Predictor:
    """Reads pictures that can be drawn."""
    own = [f"model.patches.channels={channels}", "model.classes=3"]
    recipe = read_recipe(None, "model.family=classifier", *SMALL, *IMAGES, *own)
    return predictor_of(build(recipe, seed=3), recipe, ())


MODELS = {
    "greedy": lambda: predictor("seq2seq").answering(beam_size=1),
    "beam": lambda: predictor("seq2seq"),
    "recurrent": lambda: predictor("recurrent"),
    "lm": lambda: predictor("lm").answering(beam_size=1),
    "encoder": lambda: predictor("encoder"),
    "classifier": lambda: predictor("classifier"),
    "pictures": lambda: predictor("pictures"),
    "digits": lambda: _drawn(1),
    "colours": lambda: _drawn(3),
}

RUN = {
    "folder": "demo",
    "steps": 200,
    "metric": "line_error",
    "best": {"step": 150},
    "history": [{"kind": "train", "step": step, "loss": 4 / (1 + step / 50)} for step in range(20, 201, 20)]
    + [
        {"kind": "dev", "step": step, "dev_loss": 2 - step / 200, "dev_line_error": 100 - step / 4}
        for step in (50, 200)
    ],
    "scores": {"dev": {"metrics": {"line_error": {"value": 65.125, "low": 63.0, "high": 67.25}}}},
    "judged": 200,
    "worst": [{"source": "th", "answer": "TH", "references": ["T EY CH"], "error": 1.0}],
}
COST = {"parameters": 3_130_368, "weight_bytes": 12_521_472, "macs": 2_495_643_648, "at": {"n": 512}, "formulas": {}}


class ModelRoom(FakeRoom):
    """A room whose models answer in this process; tests may hold answers back, or let them fail once."""

    def __init__(self, settings: ServeSettings, names: Sequence[str] = tuple(MODELS)) -> None:
        self.held: dict[str, Predictor] = {name: MODELS[name]() for name in names}
        super().__init__(settings, [_facts(name, model) for name, model in self.held.items()])
        self.faults: list[Fault] = []
        """What the next requests get instead of an answer."""
        self.pieces: asyncio.Event | None = None
        """Set: streams wait for it after their first piece."""
        self.late: dict[str, asyncio.Event] = {}
        """Lines that are answered only after an event."""

    async def _at_work(self, kind: str, what: Any) -> None:
        if self.faults:
            raise self.faults.pop(0)
        await super()._at_work(kind, what)

    def _message(self, model: str | None, **others: Any) -> tuple[Predictor, dict[str, Any]]:
        return self.held[self.facts(model).name], {"verbatim": False, **others}

    async def answer(self, model: str | None, lines: Sequence[str], **asked: Any) -> list[LineAnswer]:
        await self._at_work("answer", {"lines": list(lines), **asked})
        for line in lines:
            if line in self.late:
                await self.late[line].wait()
        held, message = self._message(
            model,
            lines=list(lines),
            numbers=list(range(asked["first"], asked["first"] + len(lines))),
            n_best=asked["n_best"],
            details=True,
        )
        reply = answer(held, message | {"settings": dict(asked["settings"] or {})})
        if "refused" in reply:
            raise Refused(**{key: reply["refused"][key] for key in ("where", "message")})
        warned = {index: list(words) for index, *words in reply["warnings"]}
        return [LineAnswer(ways, warned.get(index, [])) for index, ways in enumerate(reply["answers"])]

    async def stream(
        self, model: str | None, line: str, *, settings: Mapping[str, Any] | None = None, **others: Any
    ) -> AsyncGenerator[StreamPiece, None]:
        await self._at_work("stream", line)
        held, message = self._message(model, line=line, settings=dict(settings or {}))
        stream = Stream(held, message)
        try:
            while "piece" in (reply := stream.advance()):
                yield {"text": reply["piece"]}
                if self.pieces is not None:
                    await self.pieces.wait()
                if line in self.late:
                    await self.late[line].wait()
            if reply.get("rest"):
                yield {"text": reply["rest"]}
            yield {"done": LineAnswer([reply["done"]], reply["warnings"])}
        finally:
            self.left.set()

    async def look_as_json(self, model: str | None, line: str, **asked: Any) -> str:
        await self._at_work("look", {"line": line, **asked})
        held, message = self._message(model, line=line, name=model, **asked)
        return str(look(held, message | {"settings": dict(asked["settings"] or {})})["document"])

    async def look(self, model: str | None, line: str, **asked: Any) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(await self.look_as_json(model, line, **asked))
        return found

    async def about(self, model: str | None) -> dict[str, Any]:
        facts = self.facts(model)
        return {"name": facts.name, "facts": asdict(facts), "recipe": "[model]\nlayers = 2\n", "cost": COST, "run": RUN}


def _facts(name: str, model: Predictor) -> ModelFacts:
    known = described(Loaded(model, "f" * 64))["facts"]
    return ModelFacts(name=name, direction=None, loaded=0.0, ready=True, **known)
