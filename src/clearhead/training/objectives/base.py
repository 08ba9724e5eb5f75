"""The seam between the training loop and the families."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from clearhead.data import BOS, EOS, PAD, UNK, Codec, Corpus, Encoded, TrainTexts
from clearhead.recipe import Recipe

SAMPLE = 1_000_000
"""Training examples that tokenizers are learnt from, at most."""
Codecs = tuple[Codec, ...]
"""The tokenizers of source and target; a family with one side has the same twice."""


class AnyBatch(Protocol):
    """What one forward pass sees."""

    @property
    def tokens(self) -> int:
        """What the loss of a step is divided by: tokens that count, or examples."""


X = TypeVar("X", bound=Encoded)
M = TypeVar("M")
B = TypeVar("B", bound=AnyBatch)


class Objective(ABC, Generic[X, M, B]):
    """How a family learns: from examples encoded as X, with models M, in batches B.

    It has no state but the recipe: everything else follows from the data and (seed, epoch, index).
    """

    usual_smoothing: ClassVar[float]
    """``training.label_smoothing`` unless the recipe says otherwise."""
    counted: ClassVar[str]
    """What the tokens of an epoch are called."""
    when_too_long: ClassVar[str]
    """What happens to examples longer than ``data.max_length``."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        given = recipe.training.label_smoothing
        self.smoothing = self.usual_smoothing if given is None else given

    @abstractmethod
    def learn(self, corpus: Corpus[Any]) -> tuple[Codecs, Recipe]:
        """Tokenizers from the training data, and the recipe with what the data decide: sizes, special ids, labels."""

    def admitted(self, corpus: Corpus[Any]) -> Corpus[Any]:
        """The corpus without what a model of this recipe, as ``learn`` left it, cannot be scored on."""
        return corpus

    @abstractmethod
    def write(self, corpus: Corpus[Any], codecs: Codecs, folder: Path) -> None:
        """Encode the training examples into ``folder``."""

    @abstractmethod
    def open(self, folder: Path) -> X:
        """What ``write`` wrote."""

    @abstractmethod
    def batch(self, examples: X, rows: NDArray[np.int64], epoch: int) -> B:
        """These examples as tensors: it depends on nothing else."""

    @abstractmethod
    def loss(self, model: M, batch: B) -> Tensor:
        """The summed loss of a batch, to be divided by the tokens of the whole step."""


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
