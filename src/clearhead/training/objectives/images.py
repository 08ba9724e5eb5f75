"""Labelled images: what a classifier with patches learns from."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from clearhead.data import (
    Corpus,
    EncodedPictures,
    Picture,
    PictureBatch,
    picture_batch,
    read_pictures,
    training_labels,
    with_known_labels,
    write_pictures,
)
from clearhead.models import ClassifierModel
from clearhead.recipe import ClassifierSpec, PatchesSpec, Recipe
from clearhead.training.loss import label_loss, passes_of, repeated
from clearhead.training.objectives.base import Codecs, KnownTokens, Objective, with_labels


class Images(Objective[EncodedPictures, ClassifierModel, PictureBatch]):
    """−log p(label | image)."""

    usual_smoothing = 0.1
    counted = "patches"
    when_too_long = ""

    def learn(self, corpus: Corpus[Picture], known: KnownTokens | None = None) -> tuple[Codecs, Recipe]:
        """Collect the labels; there is no tokenizer."""
        labels = sorted(training_labels(corpus))
        labels = labels if known is None else known.labels(labels)
        return (), with_labels(self.recipe, labels)

    def admitted(self, corpus: Corpus[Picture]) -> Corpus[Picture]:
        """Drop examples of dev and test whose labels do not occur in train."""
        return with_known_labels(corpus, self._model().labels)

    def write(self, corpus: Corpus[Picture], codecs: Codecs, folder: Path) -> None:
        """Write every image, and its class."""
        del codecs
        numbers = {label: number for number, label in enumerate(self._model().labels)}
        write_pictures(corpus.train_columns(), folder, "train", patches=self._patches(), labels=numbers)

    def open(self, folder: Path) -> EncodedPictures:
        return read_pictures(folder, "train", patches=self._patches())

    def batch(self, examples: EncodedPictures, rows: NDArray[np.int64], epoch: int) -> PictureBatch:
        """Shift images at random, up to ``training.shift`` pixels."""
        spec = self.recipe.training
        return picture_batch(examples, rows, spec.shift, (spec.seed, epoch))

    def loss(self, model: ClassifierModel, batch: PictureBatch) -> Tensor:
        logits = model(repeated(batch.inputs, self.agreement))
        passes = logits.view(passes_of(self.agreement), len(batch.labels), -1)
        return label_loss(passes, batch.labels, self.smoothing, self.agreement)

    def _model(self) -> ClassifierSpec:
        assert isinstance(self.recipe.model, ClassifierSpec)
        return self.recipe.model

    def _patches(self) -> PatchesSpec:
        patches = self._model().patches
        assert patches is not None
        return patches
