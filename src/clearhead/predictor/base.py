"""The base class of all predictors: text in, answers out."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Self

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from clearhead.data import BadLine, Codec, format_of
from clearhead.drawing.html import facts, fragment
from clearhead.errors import ClearheadError, DataError
from clearhead.inspection import Subject, View, heads_off
from clearhead.models import Model, build, device_of, evaluating
from clearhead.models.file import stored_tensors
from clearhead.models.tree import in_one_line, shown_alone, sizes
from clearhead.predictor.asked import the_columns, the_text, the_texts
from clearhead.predictor.forced import ForcedLine
from clearhead.predictor.unknown import warn_unknown, warn_unmasked
from clearhead.recipe import DecodingSpec, Recipe, read_decoding, recipe_from, recipe_table


@dataclass(frozen=True)
class Answer:
    """One answer to one text."""

    text: str
    log_probability: float
    """log p of its tokens given the text, the end token included; NaN if it was not ``scored``."""
    score: float
    """The value by which a beam ranks answers: log p divided by the length penalty, and log p of joint n-grams times
    ``decoding.joint_weight``, if the model has them; without a beam, log p."""
    finished: bool
    """False if the length limit was reached before the end token."""
    tokens: list[int]
    cut: bool = False
    """Whether the text was longer than ``decoding.max_source``, so that only its beginning was read."""
    probabilities: Mapping[str, float] | None = None
    """The probability of every label, or of the likely tokens for a single <mask>; the most probable first."""
    unknown: tuple[str, ...] = ()
    """Characters or symbols of the text that are not in the model's vocabulary and were read as <unk>."""
    masks: tuple[Mapping[str, float], ...] = ()
    """For every <mask> of the text, the most probable tokens with their probabilities."""


class Predictor(ABC):
    """A model with its tokenizers and decoding settings; dev scores, ``eval``, ``run`` and Python all use this class.

        model = clearhead.load("runs/demo")
        model("lovely")
        model.generate(["love", "hate"], beam_size=4)
        model.answers(["love"], n_best=3)[0][0].log_probability
        model.score(["love"], ["L AH V"])
        model.vectors(["love", "hate"])

    Args:
        model: the model, with its trained weights.
        recipe: the recipe that it was trained by; ``recipe.decoding`` holds the default decoding settings.
        codecs: the tokenizers of source and target (the same one twice if there is one side); empty for images.

    Threads can share a predictor: each call locks the model for one batch at a time. A predictor can be pickled to be
    sent to other processes; model files do not use pickle.
    """

    def __init__(self, model: Model, recipe: Recipe, codecs: tuple[Codec, ...]) -> None:
        self.model, self.recipe = model, recipe
        self._reads_text = bool(codecs)  # images have no tokenizers
        if codecs:
            self.source, self.target = codecs

    def __repr__(self) -> str:
        return in_one_line(type(self).__name__, self._facts())

    def _repr_html_(self) -> str:
        """What it reads and writes, and the blocks of its model, for a notebook."""
        return fragment(f"<h3>{type(self).__name__}</h3>{facts(self._facts())}{shown_alone(self.model)}")

    def _facts(self) -> dict[str, str]:
        found = {}
        for side in self.model.spec.sides if self._reads_text else ():
            codec: Codec = getattr(self, side)
            kind = codec.kind
            found[side] = f"{len(codec):,} {kind if kind in ('characters', 'symbols') else 'subwords'}"
        return found | sizes(self.model)

    def __call__(self, text: str, **settings: Any) -> str:
        """Return the best answer to one text; ``settings`` as in ``generate``."""
        return self._best([the_text(text)], settings)[0]

    def generate(self, texts: Sequence[str], **settings: Any) -> list[str]:
        """Return the best answer to each text; ``settings`` override the recipe's ``[decoding]``: ``beam_size=4``."""
        return self._best(the_texts(texts), settings)

    def _best(self, texts: list[str], settings: Mapping[str, Any]) -> list[str]:
        """The best answers; warns the caller's caller about unknown characters and texts with nothing to fill in."""
        found = [best for best, *_ in self.answers(texts, self.decoding(**settings), scored=False)]
        if any(best.unknown for best in found):
            warn_unknown(self.source, [best.unknown for best in found], stacklevel=3)
        warn_unmasked([words for best in found if (words := self.unmasked(best))], stacklevel=3)
        return [best.text for best in found]

    def score(self, *columns: Sequence[str]) -> list[float]:
        """Return log p of each example.

        Args:
            columns: the columns of the examples, in the order of a data file: sources and targets (seq2seq), texts
                (lm), labels and texts (classifier).
        """
        layout = format_of(self.model.spec)
        checked = the_columns(columns, layout.columns)
        examples = [layout.make(*row, line=number) for number, row in enumerate(zip(*checked, strict=True), start=1)]
        for side, codec, unknown in self.unfamiliar(examples):
            warn_unknown(codec, unknown, stacklevel=2, side=side)
        return [line.log_probability for line in self.forced(examples)]

    def unfamiliar(self, examples: Sequence[Any]) -> Iterator[tuple[str, Codec, list[tuple[str, ...]]]]:
        """For each side that is text: its name, its tokenizer, and the unknown characters of each example."""
        for name in format_of(self.model.spec).texts:
            codec = self.target if name == "target" else self.source
            yield name, codec, codec.read([getattr(example, name) for example in examples])[1]

    def vectors(self, texts: Sequence[str]) -> Tensor:
        """Return one vector for each text, (texts, features): the mean of the encoder's output over its tokens.

        The special tokens around a text count as tokens, padding does not. ``decoding.pooling`` takes the first vector
        instead (``cls``), or the largest values (``max``); ``decoding.normalize`` scales each vector to length 1:
        ``model.answering(pooling="cls", normalize=True).vectors(texts)``.
        """
        del texts
        raise ClearheadError(f"a model of family {self.model.spec.family} has no encoder that gives vectors")

    def look(
        self, text: str, *, target: str | None = None, without: Sequence[str] = (), n_best: int = 5, **settings: Any
    ) -> View:
        """Answer one text and look inside: attention, where each token comes from, what each head did.

        Args:
            text: the text to answer.
            target: an answer to look at instead of the model's own.
            without: names of heads to switch off, as ``["cross.2.5"]``, while answering too.
            n_best: how many answers to list, if the beam is wide enough. Default 5.
            settings: settings of ``[decoding]`` by name, such as ``beam_size=8``.
        """
        if device_of(self.model).type == "mps":  # parts are added up in float64, which Apple's GPUs do not have
            here = self.on_device(torch.device("cpu"))
            return here.look(text, target=target, without=without, n_best=n_best, **settings)
        spec = self.decoding(**settings)
        off = (without,) if isinstance(without, str) else tuple(without)
        # the lock is held while heads are off: they are off for everybody
        with evaluating(self.model, gradients=True), heads_off(self.model, off) if off else nullcontext():
            subject = self._subject(the_text(text), target, spec, n_best)
        return View(self.model, subject, attention=spec.attention, off=off)

    @abstractmethod
    def _subject(self, text: str, target: str | None, spec: DecodingSpec, n_best: int) -> Subject:
        """A text and its answer, or the ``target`` that is given, for inspection."""

    def __copy__(self) -> Self:
        """Share everything, above all the weights: Python would copy by ``__reduce__``, which writes them out."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the recipe, the tokenizers and the weights; everything else is made from them."""
        codecs = [codec.to_json() for codec in dict.fromkeys([self.source, self.target])] if self._reads_text else []
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in stored_tensors(self.model).items()}
        return _restored, (type(self), recipe_table(self.recipe), codecs, save_tensors(tensors))

    def decoding(self, *overrides: str, **settings: Any) -> DecodingSpec:
        """Return the recipe's decoding settings with some of them changed, validated as in a recipe.

        Args:
            overrides: settings in the form ``decoding.key=value``.
            settings: settings by name.
        """
        if not overrides and not settings:
            return self.recipe.decoding
        return read_decoding(self.recipe, *overrides, settings=settings)

    def answering(self, *overrides: str, **settings: Any) -> Self:
        """The same model with other settings of ``[decoding]``, as ``decoding`` takes them; the weights are shared."""
        other = copy.copy(self)
        other.recipe = self.recipe.updated(decoding=self.decoding(*overrides, **settings))
        return other

    def with_model(self, model: Model, recipe: Recipe) -> "Predictor":
        """Another model with the same tokenizers, as one of which heads were removed."""
        return type(self)(model, recipe, (self.source, self.target) if self._reads_text else ())

    def require_alone(self, what: str) -> None:  # noqa: B027 - only those that write may be several
        """Refuse several models that answer as one, where one is needed ``what`` for."""

    def on_device(self, device: torch.device) -> "Predictor":
        """The same model there: this predictor if it is there already, otherwise one with a copy of the weights."""
        if torch.empty(0, device=device).device == device_of(self.model):  # "cuda" is one of the GPUs
            return self
        return self.with_model(copy.deepcopy(self.model).to(device), self.recipe)

    @property
    def tokenizers(self) -> dict[str, str]:
        """The tokenizers as a model file keeps them."""
        if not self._reads_text:
            return {}
        if self.source is self.target:
            return {"shared": self.source.to_json()}
        return {"source": self.source.to_json(), "target": self.target.to_json()}

    @abstractmethod
    def answers(
        self,
        texts: Sequence[str],
        spec: DecodingSpec | None = None,
        *,
        n_best: int = 1,
        scored: bool = True,
        numbers: Sequence[int] | None = None,
        **settings: Any,
    ) -> list[list[Answer]]:
        """Return the ``n_best`` best answers to each text, in order, the best first, with their log-probabilities.

        Args:
            texts: the texts to answer.
            spec: the decoding settings. Default: the recipe's, changed by ``settings``.
            n_best: answers per text. Default 1.
            scored: if False, greedy search is a little faster and log-probabilities are NaN. Default True.
            numbers: the number of each line, from which sampling takes its random seed. Default: 0, 1, 2, …
            settings: settings of ``[decoding]`` by name, such as ``beam_size=8``.
        """

    @abstractmethod
    def table(self, best: Answer) -> dict[str, Any]:
        """Return an answer as the fields of a JSON line."""

    def unmasked(self, best: Answer) -> str:
        """What to say of an answer whose text has nothing to fill in, if the model is asked to fill in."""
        del best
        return ""

    @abstractmethod
    def forced(self, examples: Sequence[Any]) -> list[ForcedLine]:
        """Return the log-probabilities of given answers (teacher forcing)."""

    def forced_tokens(self, examples: Sequence[Any]) -> list[list[str]]:
        """Return the tokens whose log-probabilities ``forced`` returns, as people read them."""
        del examples
        raise ClearheadError(f"a model of family {self.model.spec.family} gives no answers a probability")

    def tokens_of(self, text: str) -> int:
        """How many tokens the model reads of a text, unless it is cut; the special ones do not count."""
        return len(self._ids([text])[0])

    def shown(self, ids: Sequence[int]) -> list[str]:
        """Return tokens of an answer as people read them."""
        return self.target.shown(ids)

    def unfit(self, examples: Sequence[Any], file: str) -> Iterator[BadLine]:
        """Find examples on which the model cannot be scored."""
        del examples, file
        yield from ()

    def stream(self, text: str, **settings: Any) -> Iterator[str]:
        """Yield an answer piece by piece while it is generated."""
        del text, settings
        raise ClearheadError(f"a model of family {self.model.spec.family} does not generate text")

    def _asked(
        self, texts: Sequence[str], spec: DecodingSpec | None, settings: Mapping[str, Any]
    ) -> tuple[list[str], DecodingSpec]:
        """Check the texts, and combine the decoding settings of a call."""
        if spec is not None and settings:
            raise TypeError(f"give either spec or settings, not both (settings: {', '.join(settings)})")
        return the_texts(texts, "answers"), self.decoding(**settings) if spec is None else spec

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        return self._read(texts)[0]

    def _unknown(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        return self._read(texts)[1]

    def _read(self, texts: Sequence[str], *, gaps: bool = False) -> tuple[list[list[int]], list[tuple[str, ...]]]:
        """The ids of each text, and its characters or symbols that are not in the vocabulary."""
        try:
            return self.source.read(texts, gaps=gaps)
        except (TypeError, UnicodeEncodeError):
            raise DataError("a text contains an unpaired surrogate, which is not a character") from None


def _restored(kind: type[Predictor], table: dict[str, Any], tokenizers: list[str], tensors: bytes) -> Predictor:
    """Unpickle a predictor from what ``__reduce__`` returned."""
    recipe = recipe_from(table, name="a pickled predictor")
    model = build(recipe, seed=0)  # its weights are replaced
    names = stored_tensors(model)
    with torch.no_grad():
        for name, tensor in load_tensors(tensors).items():
            names[name].copy_(tensor)
    codecs = [Codec.from_json(text) for text in tokenizers]
    return kind(model.eval(), recipe, (codecs[0], codecs[-1]) if codecs else ())
