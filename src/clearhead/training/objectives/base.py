"""The interface between the training loop and the model families."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from clearhead.data import BOS, EOS, PAD, UNK, Codec, Corpus, Encoded, TrainTexts
from clearhead.data.texts import Texts
from clearhead.errors import DataError
from clearhead.recipe import Recipe

SAMPLE = 1_000_000
"""Most training examples from which tokenizers are learnt."""
Codecs = tuple[Codec, ...]
"""The tokenizers of source and target; a family with only one side has the same tokenizer twice."""


class AnyBatch(Protocol):
    """The input and labels of one forward pass."""

    @property
    def tokens(self) -> int:
        """The number by which the loss of a step is divided: tokens without padding, or examples."""


class KnownTokens(Protocol):
    """Tokenizers and labels that are there before the data are read."""

    def extended(self, recipe: Recipe, *texts: Texts) -> tuple[Codecs, Recipe]:
        """The tokenizers with what is new in these texts, and the recipe with vocabularies of their sizes."""

    def labels(self, found: Sequence[str]) -> list[str]:
        """The labels of the run, of which these occur in its data."""


X = TypeVar("X", bound=Encoded)
M = TypeVar("M")
B = TypeVar("B", bound=AnyBatch)


class Objective(ABC, Generic[X, M, B]):
    """How a family learns: models ``M`` from examples encoded as ``X``, in batches ``B``.

    An objective has no state except the recipe: everything else follows from the data and (seed, epoch, index).
    """

    usual_smoothing: ClassVar[float]
    """``training.label_smoothing`` unless the recipe sets it."""
    counted: ClassVar[str]
    """What is counted as tokens, in words."""
    when_too_long: ClassVar[str]
    """What happens to examples longer than ``data.max_length``, in words."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        given = recipe.training.label_smoothing
        self.smoothing = self.usual_smoothing if given is None else given
        self.agreement = recipe.training.agreement or 0.0

    @abstractmethod
    def learn(self, corpus: Corpus[Any], known: "KnownTokens | None" = None) -> tuple[Codecs, Recipe]:
        """Learn tokenizers from the training data; return them, and the recipe with vocabulary sizes, ids, labels.

        ``known`` are tokenizers and labels of the model that the run starts from, which are extended instead.
        """

    def admitted(self, corpus: Corpus[Any]) -> Corpus[Any]:
        """The corpus without the examples on which this recipe's model cannot be scored."""
        return corpus

    @abstractmethod
    def write(self, corpus: Corpus[Any], codecs: Codecs, folder: Path) -> None:
        """Encode the training examples into ``folder``."""

    @abstractmethod
    def open(self, folder: Path) -> X:
        """Read what ``write`` wrote."""

    @abstractmethod
    def batch(self, examples: X, rows: NDArray[np.int64], epoch: int) -> B:
        """The given rows as tensors; they depend on the arguments and the recipe alone."""

    @abstractmethod
    def loss(self, model: M, batch: B) -> Tensor:
        """The summed loss of a batch; the caller divides it by the tokens of the whole step."""


def padding(recipe: Recipe) -> int:
    """The id that fills up shorter lines; a tokenizer of another library may have none, and its lines stay alone."""
    pad = recipe.model.vocabulary.pad
    if pad is None:
        raise DataError(
            "the model has no token for padding, so that lines of unequal length cannot be trained together"
        )
    return pad


def special(recipe: Recipe, name: Literal["first", "eos"]) -> int:
    """The token that a decoder begins with, or that ends a line."""
    found: int | None = getattr(recipe.model.vocabulary, name)
    if found is None:
        what = {"first": "begins", "eos": "ends"}[name]
        raise DataError(f"the model has no token that {what} a line, so it cannot be trained to write")
    return found


def sample(corpus: Corpus[Any], column: str) -> TrainTexts:
    """Training texts to learn tokenizers from, evenly spread."""
    return corpus.train_texts(column, every=max(1, corpus.train_size // SAMPLE))


def with_vocabulary(
    recipe: Recipe, source: int, target: int, *, start: int | None = None, mask: int | None = None
) -> Recipe:
    """The recipe with the sizes of its vocabularies and the ids of their specials; None where there is none."""
    vocabulary = recipe.model.vocabulary.replaced(
        source=source, target=target, pad=PAD, bos=BOS, eos=EOS, unk=UNK, start=start, mask=mask
    )
    return recipe.updated(model=recipe.model.replaced(vocabulary=vocabulary))


def with_tie(recipe: Recipe, tie: Literal["output", "all"]) -> Recipe:
    """The recipe with these matrices tied, if it leaves that to the data."""
    embedding = recipe.model.embedding
    if embedding.tie != "auto":
        return recipe
    return recipe.updated(model=recipe.model.replaced(embedding=embedding.replaced(tie=tie)))


def with_labels(recipe: Recipe, labels: list[str]) -> Recipe:
    """The recipe of a classifier with these classes."""
    return recipe.updated(model=recipe.model.replaced(labels=labels, classes=len(labels)))
