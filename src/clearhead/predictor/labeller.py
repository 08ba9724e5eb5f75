"""Labels texts or images, with classifiers.

Shapes: b lines, n tokens, c classes.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from clearhead.data import BadLine, Codec, Labelled, pixels_of, unknown_labels
from clearhead.errors import DataError
from clearhead.inspection import Subject, require_room_to_read
from clearhead.models import ClassifierModel, device_of, evaluating
from clearhead.predictor.asked import the_number, the_texts
from clearhead.predictor.base import Answer, Predictor
from clearhead.predictor.engine import reach
from clearhead.predictor.forced import ForcedLine, batches, padded, spans
from clearhead.predictor.looking import labelled, pictured
from clearhead.predictor.vectors import pooled, text_vectors
from clearhead.recipe import DecodingSpec, Recipe


class Labeller(Predictor):
    """Answers with the most probable label.

    Args:
        model: a classifier.
        recipe: the recipe that it was trained by.
        codecs: its tokenizer, twice; empty for images.
    """

    model: ClassifierModel

    def __init__(self, model: ClassifierModel, recipe: Recipe, codecs: tuple[Codec, ...]) -> None:
        super().__init__(model, recipe, codecs)
        self.labels = model.spec.labels or [str(number) for number in range(model.spec.classes)]
        self.reach = reach(model.encoder.modules())

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
        """Return the most probable labels of each text, with the probabilities of all labels."""
        del scored, numbers
        n_best = the_number(n_best, "n_best")
        texts, spec = self._asked(texts, spec, settings)
        log_p, cut = self.log_probabilities(texts, spec)
        rows = zip(log_p, cut, self._unknown(texts), strict=True)
        return [self._choices(row, n_best, was, unknown) for row, was, unknown in rows]

    def vectors(self, texts: Sequence[str]) -> Tensor:
        spec = self.recipe.decoding
        lines = self._ids(the_texts(texts, "vectors"))
        rows = [self.source.wrapped(line, min(spec.max_source, self.reach - self.source.room)) for line in lines]
        return text_vectors(self.model, rows, self.model.states, spec)

    def _subject(self, text: str, target: str | None, spec: DecodingSpec, n_best: int) -> Subject:
        codec, ids = self.source, self._ids([text])[0]
        require_room_to_read(self.model, len(ids))
        line = codec.wrapped(ids, min(spec.max_source, self.reach - self.source.room))
        answers = self.answers([text], spec, n_best=n_best)[0]
        return labelled(
            self.model,
            text,
            self.labels,
            target,
            answers,
            source=torch.tensor([line]),
            source_tokens=tuple(codec.shown(line)),
            specials=(codec.specials, frozenset()),
        )

    def table(self, best: Answer) -> dict[str, Any]:
        probabilities = dict(best.probabilities or {})
        return {"label": best.text, "log_probability": best.log_probability, "probabilities": probabilities}

    def forced(self, examples: Sequence[Labelled]) -> list[ForcedLine]:
        """Return log p(label | text)."""
        numbers = self.numbers(examples)
        rows = zip(self.log_probabilities([example.text for example in examples])[0], numbers, strict=True)
        return [ForcedLine([row[number]], int(row.index(max(row)) == number)) for row, number in rows]

    def forced_tokens(self, examples: Sequence[Labelled]) -> list[list[str]]:
        return [[example.label] for example in examples]

    def shown(self, ids: Sequence[int]) -> list[str]:
        """Return labels by their numbers."""
        return [self.labels[number] for number in ids]

    def numbers(self, examples: Sequence[Labelled]) -> list[int]:
        """Return the class number of each example; an unknown label raises an error with its line."""
        numbers = {label: number for number, label in enumerate(self.labels)}
        for example in examples:
            if example.label not in numbers:
                raise DataError(f"line {example.line}: label {example.label!r} is unknown to the model")
        return [numbers[example.label] for example in examples]

    def unfit(self, examples: Sequence[Labelled], file: str) -> Iterator[BadLine]:
        """Find examples with a label that did not occur in training."""
        return unknown_labels(examples, set(self.labels), file)

    def _choices(self, log_p: list[float], n_best: int, cut: bool, unknown: tuple[str, ...]) -> list[Answer]:
        order = sorted(range(len(log_p)), key=lambda number: -log_p[number])
        everything = {self.labels[number]: math.exp(log_p[number]) for number in order}
        return [
            Answer(self.labels[number], log_p[number], log_p[number], True, [number], cut, everything, unknown)
            for number in order[:n_best]
        ]

    def log_probabilities(
        self, texts: Sequence[str], spec: DecodingSpec | None = None
    ) -> tuple[list[list[float]], list[bool]]:
        """Return log p of every class for each text, and whether the text had to be cut."""
        spec = spec or self.recipe.decoding
        longest = min(spec.max_source, self.reach - self.source.room)  # special tokens are added
        lines = self._ids(texts)
        rows = [self.source.wrapped(line, longest) for line in lines]
        found: list[list[float]] = [[] for _ in rows]
        for batch in batches([len(row) for row in rows], spec.budget):
            ids, valid = padded([rows[index] for index in batch])
            device = device_of(self.model)
            with evaluating(self.model, spec.attention):
                logits = self.model(ids.to(device), None if valid is None else valid.to(device))
            for index, row in zip(batch, logits.cpu().double().log_softmax(-1).tolist(), strict=True):
                found[index] = row
        return found, [len(line) > longest for line in lines]


class ImageLabeller(Labeller):
    """Answers with the most probable label of an image, given as its pixels row by row, separated by spaces."""

    def vectors(self, texts: Sequence[str]) -> Tensor:
        """Return the mean of the encoder's output over the patches of each image, (images, features).

        ``decoding.pooling`` and ``decoding.normalize`` apply.
        """
        spec, patches = self.recipe.decoding, self.model.spec.patches
        assert patches is not None
        pixels = [torch.from_numpy(pixels_of(text, patches)) for text in the_texts(texts, "vectors")]
        found = [torch.empty(0, 0)]
        for rows in spans([patches.tokens] * len(pixels), spec.budget):
            with evaluating(self.model, spec.attention):
                stacked = torch.stack([pixels[row] for row in rows])
                states = self.model.states(stacked.to(device_of(self.model))).cpu()
            found.append(torch.stack([pooled(vectors, spec) for vectors in states]))
        return torch.cat(found[1:] or found).clone()

    def _subject(self, text: str, target: str | None, spec: DecodingSpec, n_best: int) -> Subject:
        patches = self.model.spec.patches
        assert patches is not None
        answers = self.answers([text], spec, n_best=n_best)[0]
        return labelled(self.model, text, self.labels, target, answers, **pictured(text, patches))

    def tokens_of(self, text: str) -> int:
        """The patches of an image, however long its numbers are."""
        del text
        assert self.model.spec.patches is not None
        return self.model.spec.patches.tokens

    def _unknown(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        return [()] * len(texts)  # pixels are numbers

    def log_probabilities(
        self, texts: Sequence[str], spec: DecodingSpec | None = None
    ) -> tuple[list[list[float]], list[bool]]:
        spec = spec or self.recipe.decoding
        patches = self.model.spec.patches
        assert patches is not None
        pixels = [torch.from_numpy(pixels_of(text, patches)) for text in texts]
        found: list[list[float]] = []
        for rows in spans([patches.tokens] * len(pixels), spec.budget):
            with evaluating(self.model, spec.attention):
                logits = self.model(torch.stack([pixels[row] for row in rows]).to(device_of(self.model)))
            found += logits.cpu().double().log_softmax(-1).tolist()  # not every GPU has float64
        return found, [False] * len(texts)
