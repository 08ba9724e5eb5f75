"""What all predictors share: text in, answers out."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from clearhead.data import BadLine, Codec, format_of
from clearhead.drawing.html import facts, fragment
from clearhead.errors import ClearheadError, DataError
from clearhead.models import Model, build
from clearhead.models.file import stored_tensors
from clearhead.models.tree import in_one_line, shown_alone, sizes
from clearhead.predictor.asked import the_columns, the_text, the_texts
from clearhead.predictor.forced import ForcedLine
from clearhead.predictor.unknown import warn_unknown
from clearhead.recipe import DecodingSpec, Recipe, read_decoding, recipe_from, recipe_table


@dataclass(frozen=True)
class Answer:
    """One answer to one text."""

    text: str
    log_probability: float
    """log p of its tokens given the text, the end among them; NaN if nobody asked."""
    score: float
    """What the answers of a beam are ranked by, log p over the length penalty; without a beam log p itself."""
    finished: bool
    """False if the longest length was reached before the end."""
    tokens: list[int]
    cut: bool = False
    """Whether the text was longer than decoding.max_source, and only its beginning was read."""
    probabilities: Mapping[str, float] | None = None
    """How probable every label is, or the likely tokens for the only <mask>; the most probable first."""
    unknown: tuple[str, ...] = ()
    """What in the text is not in the model's vocabulary, and was read as <unk>: characters, or symbols."""
    gaps: tuple[Mapping[str, float], ...] = ()
    """Of a filled text: for every <mask> the most probable tokens, with their probabilities."""


class Predictor(ABC):
    """A model with its tokenizers: the one way in which dev scores, `eval`, `run` and Python get answers from it.

        model = clearhead.load("runs/demo")
        model("lovely")
        model.generate(["love", "hate"], beam_size=4)
        model.answers(["love"], n_best=3)[0][0].log_probability
        model.score(["love"], ["L AH V"])
        model.vectors(["love", "hate"])

    Threads can share one: each call has the model to itself for a batch at a time. It can be pickled, to be sent to
    processes of your own; model files are another thing, and are never unpickled.
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
        """The answer to one text."""
        return self._best([the_text(text)], settings)[0]

    def generate(self, texts: Sequence[str], **settings: Any) -> list[str]:
        """The best answer to each text; settings of ``[decoding]`` can be given: ``beam_size=4``."""
        return self._best(the_texts(texts), settings)

    def _best(self, texts: list[str], settings: Mapping[str, Any]) -> list[str]:
        """The best answers, and a warning to the caller's caller about what is not known."""
        found = [best for best, *_ in self.answers(texts, self.decoding(**settings), scored=False)]
        if any(best.unknown for best in found):
            warn_unknown(self.source, [best.unknown for best in found], stacklevel=3)
        return [best.text for best in found]

    def score(self, *columns: Sequence[str]) -> list[float]:
        """log p of each example, given by its columns.

        Of targets given sources, of texts (lm), of labels given texts (classifier): in the order of the file.
        """
        layout = format_of(self.model.spec)
        checked = the_columns(columns, layout.columns)
        examples = [layout.make(*row, line=number) for number, row in enumerate(zip(*checked, strict=True), start=1)]
        for side, codec, unknown in self.unfamiliar(examples):
            warn_unknown(codec, unknown, stacklevel=2, side=side)
        return [line.log_probability for line in self.forced(examples)]

    def unfamiliar(self, examples: Sequence[Any]) -> Iterator[tuple[str, Codec, list[tuple[str, ...]]]]:
        """For each side that is text: its name, its tokenizer, and what of each example is not in the vocabulary."""
        for name in format_of(self.model.spec).texts:
            codec = self.target if name == "target" else self.source
            yield name, codec, codec.read([getattr(example, name) for example in examples])[1]

    def vectors(self, texts: Sequence[str]) -> Tensor:
        """One vector for each text, (texts, features): the mean of the encoder's vectors over its tokens.

        The specials around a text count as tokens, padding does not.
        """
        del texts
        raise ClearheadError(f"a model of family {self.model.spec.family} has no encoder that gives vectors")

    def __reduce__(self) -> tuple[Any, ...]:
        """For processes of the user's own: recipe, tokenizers and weights, without what can be made again."""
        codecs = [codec.to_json() for codec in dict.fromkeys([self.source, self.target])] if self._reads_text else []
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in stored_tensors(self.model).items()}
        return _restored, (type(self), recipe_table(self.recipe), codecs, save_tensors(tensors))

    def decoding(self, *overrides: str, **settings: Any) -> DecodingSpec:
        """The recipe's way of decoding with some settings changed; what cannot work is refused as in a recipe.

        Settings come by name, or as words of the form ``decoding.key=value``.
        """
        if not overrides and not settings:
            return self.recipe.decoding
        return read_decoding(self.recipe, *overrides, settings=settings)

    def answering(self, *overrides: str, **settings: Any) -> Self:
        """The same model with other settings of ``[decoding]``, as ``decoding`` takes them; the weights are shared."""
        other = copy.copy(self)
        other.recipe = self.recipe.updated(decoding=self.decoding(*overrides, **settings))
        return other

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
        """The ``n_best`` best answers to each text, in order, the best first, with their log-probabilities.

        How they are found is said by settings of ``[decoding]``, ``beam_size=8``, or by a whole ``Decoding``. Greedy
        search is a little faster if it is not ``scored``; its log-probabilities are then NaN. ``numbers`` name the
        lines, where chance decides.
        """

    @abstractmethod
    def table(self, best: Answer) -> dict[str, Any]:
        """An answer as the fields of a JSON line."""

    @abstractmethod
    def forced(self, examples: Sequence[Any]) -> list[ForcedLine]:
        """How probable given examples are."""

    def unfit(self, examples: Sequence[Any], file: str) -> Iterator[BadLine]:
        """Examples that the model cannot be scored on."""
        del examples, file
        yield from ()

    def stream(self, text: str, **settings: Any) -> Iterator[str]:
        """An answer piece by piece, as it is written, by models that write."""
        del text, settings
        raise ClearheadError(f"a model of family {self.model.spec.family} does not write token by token")

    def _asked(
        self, texts: Sequence[str], spec: DecodingSpec | None, settings: Mapping[str, Any]
    ) -> tuple[list[str], DecodingSpec]:
        """The texts and the way of decoding that a call names."""
        if spec is not None and settings:
            raise TypeError(f"a Decoding is given, and {', '.join(settings)} beside it: give one or the other")
        return the_texts(texts, "answers"), self.decoding(**settings) if spec is None else spec

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        return self._read(texts)[0]

    def _unknown(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        return self._read(texts)[1]

    def _read(self, texts: Sequence[str], *, gaps: bool = False) -> tuple[list[list[int]], list[tuple[str, ...]]]:
        """Ids of each text, and what of it is not in the vocabulary."""
        try:
            return self.source.read(texts, gaps=gaps)
        except (TypeError, UnicodeEncodeError):
            raise DataError("a text holds half of a surrogate pair, which is no character") from None


def _restored(kind: type[Predictor], table: dict[str, Any], tokenizers: list[str], tensors: bytes) -> Predictor:
    """A predictor in another process, from what ``__reduce__`` sent there."""
    recipe = recipe_from(table, name="a pickled predictor")
    model = build(recipe, seed=0)  # its weights are replaced
    names = stored_tensors(model)
    with torch.no_grad():
        for name, tensor in load_tensors(tensors).items():
            names[name].copy_(tensor)
    codecs = [Codec.from_json(text) for text in tokenizers]
    return kind(model.eval(), recipe, (codecs[0], codecs[-1]) if codecs else ())
