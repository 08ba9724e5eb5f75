"""The room where models answer: the one thing that HTTP sees of them."""

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from clearhead.serving.settings import ServeSettings
from clearhead.serving.shapes import LineAnswer, LineScore, ModelFacts, RoomState, StreamPiece, TracedToken


class Room:
    """Several models, the processes that answer with them, and the queue before them.

    Args:
        models: paths by name: a run folder, a model file or a Hugging Face folder; see ``names_of``.
        settings: how much is taken on.

    All methods belong to one event loop. Faults of ``clearhead.serving.faults`` say why something was not answered;
    ``model=None`` is the first model.
    """

    def __init__(self, models: Mapping[str, Path | str], settings: ServeSettings) -> None:
        self.settings = settings
        raise NotImplementedError

    async def start(self) -> None:
        """Start the workers and wait until they have the models; a model that cannot be loaded is an error."""
        raise NotImplementedError

    async def stop(self, grace: float | None = None) -> None:
        """Take no new work, finish what is there within ``grace`` seconds, end the workers. Can be called twice."""
        raise NotImplementedError

    async def reload(self) -> dict[str, str]:
        """Look for newer models under the same names and take them; says for each model what was done."""
        raise NotImplementedError

    def models(self) -> list[ModelFacts]:
        """The models, in the order in which they were named."""
        raise NotImplementedError

    def facts(self, model: str | None) -> ModelFacts:
        """One of them; ``UnknownModel`` if there is none of that name."""
        raise NotImplementedError

    def state(self) -> RoomState:
        """How the work stands. Cheap."""
        raise NotImplementedError

    async def about(self, model: str | None) -> dict[str, Any]:
        """Recipe, cost, and the run that the model comes from, if it is one.

        ``{"name", "facts": {…}, "recipe": TOML, "cost": as clearhead cost --json, "run": None | {"steps", "metric",
        "best", "history": [rows], "curve": SVG, "scores": {"dev"|"test": {metric: {"value", "low", "high"}}},
        "worst": [{"question", "answer", "right"}]}}``.
        """
        raise NotImplementedError

    async def answer(
        self,
        model: str | None,
        lines: Sequence[str],
        *,
        settings: Mapping[str, Any] | None = None,
        n_best: int = 1,
        details: bool = True,
        verbatim: bool = False,
        deadline: float | None = None,
    ) -> list[LineAnswer]:
        """Answer lines, as ``clearhead run`` does: spaces around a line do not count, an empty line gets "".

        Args:
            model: its name.
            lines: the lines.
            settings: settings of ``[decoding]`` by name: ``{"beam_size": 8}``.
            n_best: answers to each line; the beam is made wide enough unless ``beam_size`` is given.
            details: whether log p, tokens and probabilities are wanted; without them it is faster.
            verbatim: whether lines are read as they are: spaces count, and empty lines are answered (for prompts).
            deadline: seconds. Default: ``settings.deadline_seconds``.
        """
        raise NotImplementedError

    def stream(
        self,
        model: str | None,
        line: str,
        *,
        settings: Mapping[str, Any] | None = None,
        verbatim: bool = False,
        deadline: float | None = None,
    ) -> AsyncIterator[StreamPiece]:
        """Answer one line piece by piece, greedily or sampled; a beam is refused, as it decides only at the end.

        Yields ``{"text": piece}``, whose texts join to the answer, then ``{"done": LineAnswer}``. Close the iterator
        (``aclose``) to stop. Refusals come with the first item.
        """
        raise NotImplementedError

    async def score(
        self, model: str | None, rows: Sequence[Sequence[str]], *, deadline: float | None = None
    ) -> list[LineScore]:
        """log p of given rows (``facts(model).columns``), as ``clearhead score`` computes it."""
        raise NotImplementedError

    async def trace(
        self, model: str | None, prompt: str, ids: Sequence[int] = (), *, top: int = 0, deadline: float | None = None
    ) -> list[TracedToken]:
        """Every token of a prompt, read verbatim, and of its answer (``answers[0]["ids"]``), with log p.

        Of an encoder-decoder only the answer's tokens. ``top``: how many likely tokens to list at each place.
        """
        raise NotImplementedError

    async def look(
        self,
        model: str | None,
        line: str,
        *,
        target: str | None = None,
        at: int | None = None,
        against: str | None = None,
        without: Sequence[str] = (),
        n_best: int = 5,
        heads: bool = False,
        settings: Mapping[str, Any] | None = None,
        deadline: float | None = None,
    ) -> dict[str, Any]:
        """Look inside: the document that ``show`` of pages/look.js takes.

        Args:
            target: an answer to look at instead of the model's own.
            at: the place in the answer that is meant, from 0.
            against: another token; with ``at``, the parts of the difference of the two logits.
            without: names of heads to switch off, as ``["cross.2.5"]``.
            n_best: how many answers to list.
            heads: whether every head is switched off in turn, to tell its importance here; takes a while.
        """
        raise NotImplementedError


def names_of(words: Sequence[str]) -> dict[str, Path]:
    """Models by name, from words of a command line: ``name=path``, or a path whose last part is the name.

    A run folder or a Hugging Face folder is known by the folder, ``best.safetensors`` by its folder, another model
    file by its stem. Names are unique and have no ``/``.
    """
    raise NotImplementedError
