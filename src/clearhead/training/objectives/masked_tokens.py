"""Masked language modelling: an encoder predicts masked tokens (Devlin et al. 2019)."""

from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from clearhead.data import (
    Corpus,
    EncodedTexts,
    Masker,
    Text,
    TextBatch,
    gap_batch,
    learn_codec,
    pieces,
    read_texts,
    write_texts,
)
from clearhead.errors import DataError
from clearhead.models import EncoderModel
from clearhead.recipe import Recipe
from clearhead.training.loss import batch_token_loss, repeated
from clearhead.training.objectives.base import Codecs, KnownTokens, Objective, padding, sample, with_vocabulary


class MaskedTokens(Objective[EncodedTexts, EncoderModel, TextBatch]):
    """−Σ log p(y_l | the masked line), over the tokens chosen for prediction."""

    usual_smoothing = 0.0
    counted = "tokens"
    when_too_long = "cut into pieces, so that every token is still used once"

    def learn(self, corpus: Corpus[Text], known: KnownTokens | None = None) -> tuple[Codecs, Recipe]:
        """Learn one tokenizer with <mask>, and set a head over its tokens."""
        if known is not None:
            codecs, recipe = known.extended(self.recipe, sample(corpus, "text"))
            mask = codecs[0].mask
            if mask is None:
                raise DataError("the tokenizer of the model has no <mask>, so it cannot learn to fill in hidden tokens")
            vocabulary = recipe.model.vocabulary.replaced(mask=mask)
            return codecs, recipe.updated(model=recipe.model.replaced(head="tokens", vocabulary=vocabulary))
        codec = learn_codec(sample(corpus, "text"), self.recipe.data.text, masked=True, case=self.recipe.data.case)
        assert codec.mask is not None
        recipe = with_vocabulary(self.recipe, len(codec), len(codec), mask=codec.mask)
        return (codec, codec), recipe.updated(model=recipe.model.replaced(head="tokens"))

    def write(self, corpus: Corpus[Text], codecs: Codecs, folder: Path) -> None:
        """Encode every line, in pieces if it is too long."""
        size = self.recipe.data.max_length
        first, last = codecs[0].around
        cut = partial(pieces, size=size, first=first, last=last)
        write_texts(corpus.train_columns(), codecs[0], folder, "train", cut=cut, max_length=size)

    def open(self, folder: Path) -> EncodedTexts:
        return read_texts(folder, "train")

    def batch(self, examples: EncodedTexts, rows: NDArray[np.int64], epoch: int) -> TextBatch:
        """Mask other tokens in every epoch."""
        vocabulary = self.recipe.model.vocabulary
        assert vocabulary.mask is not None  # learn() has recorded it
        masker = Masker(self.recipe.training.masking, vocabulary.mask, vocabulary.source)
        return gap_batch(examples, rows, masker, (self.recipe.training.seed, epoch), pad=padding(self.recipe))

    def loss(self, model: EncoderModel, batch: TextBatch) -> Tensor:
        """Sum over the tokens to predict; logits are computed for them alone."""
        assert model.output is not None
        states = model.states(repeated(batch.inputs, self.agreement))
        return batch_token_loss(states, model.output, batch, self.smoothing, self.agreement)
