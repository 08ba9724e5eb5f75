"""Examples of every family as batches of ids for teacher forcing, on which heads are judged.

The tokens, cuts and hidden tokens are those that ``clearhead eval`` computes its loss from.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clearhead.data import PAD, Masker, pixels_of, windows
from clearhead.errors import ClearheadError
from clearhead.inspection import ForcedBatch
from clearhead.models import LanguageModel, Seq2Seq
from clearhead.predictor.base import Predictor
from clearhead.predictor.filler import Filler
from clearhead.predictor.forced import batches, padded
from clearhead.predictor.labeller import ImageLabeller, Labeller
from clearhead.predictor.writer import TextWriter

TOKENS = 2048
"""Padded tokens of a batch."""


def forced_batches(predictor: Predictor, examples: Sequence[Any], *, tokens: int = TOKENS) -> list[ForcedBatch]:
    """The examples in batches, lines of similar length together.

    Args:
        predictor: the model with its tokenizers.
        examples: what ``read_examples`` gives.
        tokens: the most padded tokens of a batch.
    """
    predictor.require_alone("to study")
    if isinstance(predictor, ImageLabeller):
        return list(_pictures(predictor, examples, tokens))
    if isinstance(predictor, Labeller):
        return list(_labels(predictor, examples, tokens))
    if isinstance(predictor, Filler):
        return list(_gaps(predictor, examples, tokens))
    if isinstance(predictor, TextWriter) and isinstance(predictor.model, LanguageModel):
        return list(_texts(predictor, examples, tokens))
    if isinstance(predictor, TextWriter) and isinstance(predictor.model, Seq2Seq):
        return list(_pairs(predictor, examples, tokens))
    raise ClearheadError(f"a model of family {predictor.model.spec.family} predicts nothing that heads are judged by")


def _pairs(predictor: TextWriter, examples: Sequence[Any], tokens: int) -> Iterator[ForcedBatch]:
    left, _, _ = predictor._encode([pair.source for pair in examples], predictor.recipe.decoding)
    right, first = predictor.answer_rows(examples), predictor.framing.first(predictor.recipe.decoding)
    sizes = [max(len(source), len(target)) for source, target in zip(left, right, strict=True)]
    for batch in batches(sizes, tokens):
        targets = [right[index] for index in batch]
        yield _batch(
            batch,
            [left[index] for index in batch],
            targets,
            answers=[[first, *t[:-1]] for t in targets],
        )


def _texts(predictor: TextWriter, examples: Sequence[Any], tokens: int) -> Iterator[ForcedBatch]:
    size = min(predictor.recipe.data.max_length, predictor.engine.reach - 1)
    lines = predictor._ids([example.text for example in examples])
    parts = [windows(ids, size, predictor.engine.first, predictor.engine.eos) for ids in lines]
    flat = [(number, window) for number, line in enumerate(parts) for window in line if len(window) > 1]
    for batch in batches([len(window) for _, window in flat], tokens):
        own = [flat[index] for index in batch]
        yield _batch([line for line, _ in own], [window[:-1] for _, window in own], [window[1:] for _, window in own])


def _gaps(predictor: Filler, examples: Sequence[Any], tokens: int) -> Iterator[ForcedBatch]:
    masker = Masker(predictor.recipe.training.masking, predictor.mask, len(predictor.source))
    size = min(predictor.recipe.data.max_length, predictor.reach - predictor.source.room)
    lines = [predictor._pieces(ids, size) for ids in predictor._ids([example.text for example in examples])]
    flat = [(number, *masker.hidden(np.array(piece))) for number, line in enumerate(lines) for piece in line]
    for batch in batches([len(inputs) for _, inputs, _ in flat], tokens):
        own = [flat[index] for index in batch]
        places = [np.flatnonzero(labels != PAD).tolist() for *_, labels in own]
        right = [labels[labels != PAD].tolist() for *_, labels in own]
        yield _batch([line for line, *_ in own], [inputs.tolist() for _, inputs, _ in own], right, places=places)


def _labels(predictor: Labeller, examples: Sequence[Any], tokens: int) -> Iterator[ForcedBatch]:
    longest = min(predictor.recipe.decoding.max_source, predictor.reach - predictor.source.room)
    rows = [predictor.source.wrapped(ids, longest) for ids in predictor._ids([example.text for example in examples])]
    classes = predictor.numbers(examples)
    for batch in batches([len(row) for row in rows], tokens):
        yield _batch(batch, [rows[index] for index in batch], [[classes[index]] for index in batch])


def _pictures(predictor: ImageLabeller, examples: Sequence[Any], tokens: int) -> Iterator[ForcedBatch]:
    patches, classes = predictor.model.spec.patches, predictor.numbers(examples)
    assert patches is not None
    for batch in batches([patches.tokens] * len(examples), tokens):
        pixels = torch.stack([torch.from_numpy(pixels_of(examples[index].text, patches)) for index in batch])
        lengths = torch.full((len(batch),), patches.tokens)
        yield ForcedBatch(batch, pixels, lengths, None, None, *_predicted([[classes[index]] for index in batch], None))


def _batch(
    lines: list[int],
    inputs: list[list[int]],
    right: list[list[int]],
    *,
    answers: list[list[int]] | None = None,
    places: list[list[int]] | None = None,
) -> ForcedBatch:
    lengths = torch.tensor([len(row) for row in inputs])
    read = None if answers is None else padded(answers)[0]
    sizes = None if answers is None else torch.tensor([len(row) for row in answers])
    return ForcedBatch(lines, padded(inputs)[0], lengths, read, sizes, *_predicted(right, places))


def _predicted(right: list[list[int]], places: list[list[int]] | None) -> tuple[Tensor, Tensor, Tensor]:
    """Row, place and right token of everything that is predicted; the places are 0, 1, 2 … unless they are given."""
    where = [list(range(len(row))) for row in right] if places is None else places
    rows = [number for number, row in enumerate(right) for _ in row]
    return (
        torch.tensor(rows, dtype=torch.long),
        torch.tensor([place for row in where for place in row], dtype=torch.long),
        torch.tensor([token for row in right for token in row], dtype=torch.long),
    )
