"""Pairs of source and target, for encoder-decoders."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from clearhead.data import (
    Batch,
    Corpus,
    EncodedPairs,
    Framing,
    Pair,
    learn_codecs,
    make_batch,
    read_encoded,
    write_encoded,
)
from clearhead.models import Seq2Seq
from clearhead.recipe import Recipe
from clearhead.training.loss import batch_token_loss, repeated
from clearhead.training.objectives.base import (
    Codecs,
    KnownTokens,
    Objective,
    padding,
    sample,
    special,
    with_tie,
    with_vocabulary,
)


class Pairs(Objective[EncodedPairs, Seq2Seq, Batch]):
    """−log p(target | source) (L0.1)."""

    usual_smoothing = 0.1
    counted = "target tokens"
    when_too_long = "left out"

    def learn(self, corpus: Corpus[Pair], known: KnownTokens | None = None) -> tuple[Codecs, Recipe]:
        """Learn a tokenizer for each side, or one for both."""
        if known is not None:
            return known.extended(self.recipe, sample(corpus, "source"), sample(corpus, "target"))
        source, target = learn_codecs(sample(corpus, "source"), sample(corpus, "target"), self.recipe.data)
        recipe = with_vocabulary(self.recipe, len(source), len(target))
        return (source, target), with_tie(recipe, "all" if source is target else "output")

    def write(self, corpus: Corpus[Pair], codecs: Codecs, folder: Path) -> None:
        """Encode both sides of every pair that is not too long."""
        source, target = codecs
        frames = None
        if source.imported is not None:  # what stands around a line is the affair of its tokenizer
            framing, spec = Framing(self.recipe.model, source, target), self.recipe.decoding
            frames = framing.around(spec), (framing.prefix(spec), ())
        size, own = self.recipe.data.max_length, corpus.train_size - corpus.beside
        write_encoded(corpus.train_columns(), source, target, folder, "train", max_length=size, frames=frames, own=own)

    def open(self, folder: Path) -> EncodedPairs:
        return read_encoded(folder, "train")

    def batch(self, examples: EncodedPairs, rows: NDArray[np.int64], epoch: int) -> Batch:
        del epoch
        first, last = special(self.recipe, "first"), special(self.recipe, "eos")
        return make_batch(examples, rows, pad=padding(self.recipe), first=first, last=last)

    def loss(self, model: Seq2Seq, batch: Batch) -> Tensor:
        return batch_loss(model, batch, self.smoothing, self.agreement)


def batch_loss(model: Seq2Seq, batch: Batch, smoothing: float, agreement: float = 0.0) -> Tensor:
    """Sum the loss over all target tokens except padding."""
    states = model.states(repeated(batch.source, agreement), repeated(batch.inputs, agreement))
    return batch_token_loss(states, model.output, batch, smoothing, agreement)
