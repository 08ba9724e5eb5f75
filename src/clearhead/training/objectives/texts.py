"""Lines of text, for language models."""

from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from clearhead.data import (
    BOS,
    Corpus,
    EncodedWindows,
    Text,
    TextBatch,
    learn_codec,
    read_texts,
    window_batch,
    windows,
    write_texts,
)
from clearhead.models import LanguageModel
from clearhead.recipe import Recipe
from clearhead.training.loss import batch_token_loss, repeated
from clearhead.training.objectives.base import (
    Codecs,
    KnownTokens,
    Objective,
    sample,
    special,
    with_tie,
    with_vocabulary,
)


class NextTokens(Objective[EncodedWindows, LanguageModel, TextBatch]):
    """−Σ log p(y_l | y_<l): every token of a line, and its end."""

    usual_smoothing = 0.0
    counted = "tokens"
    when_too_long = "cut into windows, so that every token is still predicted once"

    def learn(self, corpus: Corpus[Text], known: KnownTokens | None = None) -> tuple[Codecs, Recipe]:
        """Learn one tokenizer; prompts begin with <s>, as lines do."""
        if known is not None:
            return known.extended(self.recipe, sample(corpus, "text"))
        codec = learn_codec(sample(corpus, "text"), self.recipe.data.text, case=self.recipe.data.case)
        recipe = with_vocabulary(self.recipe, len(codec), len(codec), start=BOS)
        return (codec, codec), with_tie(recipe, "output")

    def write(self, corpus: Corpus[Text], codecs: Codecs, folder: Path) -> None:
        """Encode every line, in windows if it is too long."""
        size = self.recipe.data.max_length
        cut = partial(windows, size=size, first=special(self.recipe, "first"), last=special(self.recipe, "eos"))
        write_texts(corpus.train_columns(), codecs[0], folder, "train", cut=cut, max_length=size)

    def open(self, folder: Path) -> EncodedWindows:
        read = read_texts(folder, "train")
        return EncodedWindows(read.text, read.labels, read.too_long)

    def batch(self, examples: EncodedWindows, rows: NDArray[np.int64], epoch: int) -> TextBatch:
        """Pair each token with the next one, which is its label."""
        del epoch
        return window_batch(examples, rows, pad=self.recipe.model.vocabulary.pad)

    def loss(self, model: LanguageModel, batch: TextBatch) -> Tensor:
        states = model.states(repeated(batch.inputs, self.agreement))
        return batch_token_loss(states, model.output, batch, self.smoothing, self.agreement)
