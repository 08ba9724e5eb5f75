"""Several models that write one answer: at each token the mean of their probabilities decides.

They err in different places, so together they are right more often than each of them, and cost what all of them cost.
A beam's answers are ranked by the joint n-grams of the first model, if it has some.

Shapes: b lines, k beams of a line, V entries of the vocabulary, s models.
"""

import copy
import hashlib
import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.decoding import Stepper
from clearhead.errors import ClearheadError
from clearhead.models import Model, Seq2Seq, add_tensors, device_of, evaluating, stored_tensors
from clearhead.predictor.base import Predictor
from clearhead.predictor.engine import Engine
from clearhead.predictor.writer import TextWriter
from clearhead.recipe import DecodingSpec

W = TypeVar("W", bound=TextWriter)


class TogetherStepper:
    """Feeds every token to all models.

    Args:
        steppers: those of the models, s of them.
    """

    def __init__(self, steppers: Sequence[Stepper]) -> None:
        self._steppers = steppers

    def step(self, ids: Int[Tensor, "b k"]) -> Float[Tensor, "b k V"]:
        """Return log of the mean probability of each token: logits that are normalised already."""
        logs = torch.stack([stepper.step(ids).log_softmax(-1) for stepper in self._steppers])  # (s, b, k, V)
        return logs.logsumexp(0) - math.log(len(logs))

    def keep(self, lines: Int[Tensor, "r"], beams: Int[Tensor, "r k"] | None = None) -> None:
        """Continue with these lines and beams."""
        for stepper in self._steppers:
            stepper.keep(lines, beams)


class Together(Engine):
    """Searches with several models, whose steps are taken side by side.

    Args:
        model: the first model.
        others: predictors of the others, which nobody else uses.
    """

    name = "together"

    def __init__(self, model: Model, others: Sequence[TextWriter]) -> None:
        super().__init__(model)
        self.others, self.where = list(others), (list(others),)
        self.beside = [other.model for other in others]
        reaches = [(engine.reach, engine._write_reach) for engine in self._engines]
        self.reach = min([self.reach, *(read for read, _ in reaches)])
        self._write_reach = min([self._write_reach, *(write for _, write in reaches)])

    @property
    def _engines(self) -> list[Engine]:
        return [other.engine for other in self.others]

    @property
    def described(self) -> str:
        """Which models stand beside the first one."""
        digests = []
        for other in self.others:
            digest = hashlib.sha256()
            add_tensors(digest, stored_tensors(other.model))
            digests.append(digest.hexdigest()[:12])
        return f"together with {', '.join(digests)}"

    @contextmanager
    def _evaluating(self, spec: DecodingSpec) -> Iterator[None]:
        models = {id(model): model for model in (self.model, *self.beside)}
        with ExitStack() as locked:
            for _, model in sorted(models.items()):  # in one order, whoever asks: else two threads wait for each other
                locked.enter_context(evaluating(model, spec.attention))
            yield

    def _memory(self, lines: int, beams: int, tokens: int, length: int) -> int:
        needed = [engine._memory(lines, beams, tokens, length) for engine in self._engines]
        return super()._memory(lines, beams, tokens, length) + sum(needed)

    def _stepper(self, lines: list[list[int]]) -> Stepper:
        return TogetherStepper([super()._stepper(lines), *(engine._stepper(lines) for engine in self._engines)])


def together(models: Sequence[Predictor]) -> TextWriter:
    """One predictor of several, whose settings of ``[decoding]`` and n-grams are those of the first.

    Raises ``ClearheadError`` for models that do not write with the same tokens.
    """
    writers = [_writer(model) for model in models]
    if not writers:
        raise ClearheadError("together: name a model")
    first, *others = writers
    for other in others:
        _require_alike(first, other)
    if not others:
        return first
    alone = [copy.copy(other) for other in others]
    for other in alone:  # a lean decoder belongs to one thread at a time
        other.engine = Engine(other.model)
    return first.on_engine(Together(first.model, alone))


def _writer(model: Predictor) -> TextWriter:
    """A model that writes with its own engine."""
    if not isinstance(model, TextWriter):
        raise ClearheadError(f"together: a model of family {model.model.spec.family} does not write answers")
    if model.engine.name != Engine.name:
        raise ClearheadError(f"together: a model that answers by {model.engine.name} cannot be one of several")
    return model


def _require_alike(first: TextWriter, other: TextWriter) -> None:
    """Refuse models whose tokens, or the way in which these are framed, differ."""
    one, two = first.model.spec, other.model.spec
    kinds = isinstance(first.model, Seq2Seq), isinstance(other.model, Seq2Seq)
    if kinds[0] != kinds[1]:
        raise ClearheadError(f"together: models of the families {one.family} and {two.family} write differently")
    if first.tokenizers != other.tokenizers or one.vocabulary != two.vocabulary:
        raise ClearheadError(
            "together: the models have different tokens: train them on the same data, or one --from the other"
        )
    if device_of(first.model) != device_of(other.model):
        raise ClearheadError("together: the models stand on different devices")
