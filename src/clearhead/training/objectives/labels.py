"""Labelled texts, for classifiers."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from clearhead.data import (
    Corpus,
    EncodedTexts,
    LabelBatch,
    Labelled,
    beginning,
    label_batch,
    learn_codec,
    read_texts,
    training_labels,
    with_known_labels,
    write_texts,
)
from clearhead.models import ClassifierModel
from clearhead.recipe import ClassifierSpec, Recipe
from clearhead.training.loss import label_loss, passes_of, repeated
from clearhead.training.objectives.base import (
    Codecs,
    KnownTokens,
    Objective,
    padding,
    sample,
    with_labels,
    with_vocabulary,
)


class Labels(Objective[EncodedTexts, ClassifierModel, LabelBatch]):
    """−log p(label | text)."""

    usual_smoothing = 0.1
    counted = "tokens"
    when_too_long = "cut off there"

    def learn(self, corpus: Corpus[Labelled], known: KnownTokens | None = None) -> tuple[Codecs, Recipe]:
        """Learn one tokenizer, and collect the labels."""
        labels = sorted(training_labels(corpus))
        if known is not None:
            codecs, recipe = known.extended(self.recipe, sample(corpus, "text"))
            return codecs, with_labels(recipe, known.labels(labels))
        codec = learn_codec(sample(corpus, "text"), self.recipe.data.text, case=self.recipe.data.case)
        recipe = with_vocabulary(self.recipe, len(codec), len(codec))
        return (codec, codec), with_labels(recipe, labels)

    def admitted(self, corpus: Corpus[Labelled]) -> Corpus[Labelled]:
        """Drop examples of dev and test whose labels do not occur in train."""
        return with_known_labels(corpus, self._labels())

    def write(self, corpus: Corpus[Labelled], codecs: Codecs, folder: Path) -> None:
        """Encode the beginning of every text, and its class."""
        size = self.recipe.data.max_length
        first, last = codecs[0].around
        cut = partial(beginning, size=size, first=first, last=last)
        numbers = {label: number for number, label in enumerate(self._labels())}
        write_texts(corpus.train_columns(), codecs[0], folder, "train", cut=cut, max_length=size, labels=numbers)

    def open(self, folder: Path) -> EncodedTexts:
        return read_texts(folder, "train")

    def batch(self, examples: EncodedTexts, rows: NDArray[np.int64], epoch: int) -> LabelBatch:
        del epoch
        return label_batch(examples, rows, pad=padding(self.recipe))

    def loss(self, model: ClassifierModel, batch: LabelBatch) -> Tensor:
        logits = model(repeated(batch.inputs, self.agreement))
        passes = logits.view(passes_of(self.agreement), len(batch.labels), -1)
        return label_loss(passes, batch.labels, self.smoothing, self.agreement)

    def _labels(self) -> Sequence[str]:
        assert isinstance(self.recipe.model, ClassifierSpec)
        return self.recipe.model.labels
