"""Batches: the tensors of examples that are trained on together.

Shapes: b lines of a batch, n source tokens, m target tokens.
"""

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from clearhead.data.arrays import Encoded, EncodedPairs, EncodedTexts, Side
from clearhead.data.masking import Masker
from clearhead.data.pictures import EncodedPictures, moved
from clearhead.data.tokens import BOS, EOS, PAD

B = TypeVar("B", bound="OnDevice")
T = TypeVar("T", bound="TokenBatch")


class OnDevice:
    """A batch: it is made on the CPU, and can go to another device."""

    def to(self: B, device: torch.device) -> B:
        """The same batch there; a GPU copies it while it works on earlier ones."""
        parts = {name: part for name, part in vars(self).items() if isinstance(part, Tensor)}
        if all(part.device.type == device.type for part in parts.values()):
            return self
        there = copy.copy(self)
        vars(there).update({name: _sent(part, device) for name, part in parts.items()})
        return there


def _sent(part: Tensor, device: torch.device) -> Tensor:
    return (part.pin_memory() if device.type == "cuda" else part).to(device, non_blocking=True)


class TokenBatch(OnDevice):
    """A batch whose labels are tokens, of which some count."""

    labels: Int[Tensor, "b m"]
    ignored: int

    @cached_property
    def counted(self) -> Int[Tensor, "r"]:
        """The places of the labels that count, as if all lines stood in one row."""
        return (self.labels.flatten() != self.ignored).nonzero()[:, 0]

    @property
    def tokens(self) -> int:
        """Labels that count."""
        return len(self.counted)

    def to(self: T, device: torch.device) -> T:
        """The same batch there; what counts is found before it goes, as a GPU would have to be waited for."""
        _ = self.counted
        return super().to(device)


@dataclass(frozen=True)
class Batch(TokenBatch):
    """Pairs that one forward pass sees."""

    source: Int[Tensor, "b n"]
    """Source tokens, each line ended by </s>, padded at the right."""
    inputs: Int[Tensor, "b m"]
    """<s> and the target: what the decoder is fed."""
    labels: Int[Tensor, "b m"]
    """The target and </s>: what it should say."""
    ignored: int = PAD
    """Stands among the labels where nothing counts."""


@dataclass(frozen=True)
class TextBatch(TokenBatch):
    """Lines with tokens to be said: the next one at every place (lm), or the hidden ones (encoder)."""

    inputs: Int[Tensor, "b n"]
    """What the model is fed, padded at the right."""
    labels: Int[Tensor, "b n"]
    """What it should say at each place; ``ignored`` where nothing counts."""
    ignored: int = PAD


@dataclass(frozen=True)
class LabelBatch(OnDevice):
    """Lines and their classes."""

    inputs: Int[Tensor, "b n"]
    labels: Int[Tensor, "b"]

    @property
    def tokens(self) -> int:
        """What counts here are the lines."""
        return len(self.labels)


@dataclass(frozen=True)
class PictureBatch(OnDevice):
    """Images and their classes."""

    inputs: Float[Tensor, "b height width channels"]
    labels: Int[Tensor, "b"]

    @property
    def tokens(self) -> int:
        """What counts here are the images."""
        return len(self.labels)


def make_batch(
    pairs: EncodedPairs, rows: NDArray[np.int64], *, pad: int = PAD, first: int = BOS, last: int = EOS
) -> Batch:
    """The tensors of these pairs; the specials are ours, unless those of another tokenizer are given."""
    source = _pad(pairs.source, rows, first=None, last=None if pairs.framed else last, pad=pad)
    labels = _pad(pairs.target, rows, first=None, last=last, pad=pad)
    inputs = _pad(pairs.target, rows, first=first, last=None, pad=pad)
    return Batch(source, inputs, labels, pad)


def _pad(side: Side, rows: NDArray[np.int64], *, first: int | None, last: int | None, pad: int) -> Int[Tensor, "b n"]:
    lines = [side.line(int(row)) for row in rows]
    lengths = np.array([len(line) for line in lines])
    shift = int(first is not None)
    table = np.full((len(rows), int(lengths.max()) + shift + int(last is not None)), pad, dtype=np.int64)
    for row, line in zip(table, lines, strict=True):
        row[shift : shift + len(line)] = line
    if first is not None:
        table[:, 0] = first
    if last is not None:
        table[np.arange(len(rows)), lengths + shift] = last
    return torch.from_numpy(table)


def window_batch(texts: EncodedTexts, rows: NDArray[np.int64], *, pad: int | None = PAD) -> TextBatch:
    """Lines for a language model: each token is to be said after the ones before it.

    Without a token for padding, any stands at the end of shorter lines: no earlier one sees it, and −1 is its label.
    """
    lines = [texts.text.line(int(row)) for row in rows]
    ignored = -1 if pad is None else pad
    inputs = _table([line[:-1] for line in lines], max(ignored, 0))
    return TextBatch(inputs, _table([line[1:] for line in lines], ignored), ignored)


def gap_batch(
    texts: EncodedTexts, rows: NDArray[np.int64], masker: Masker, key: tuple[int, int], *, pad: int = PAD
) -> TextBatch:
    """Lines for an encoder, with tokens hidden: which ones follows from ``key`` (seed and epoch) and the index."""
    lines = [masker.corrupted(texts.text.line(row).astype(np.int64), (*key, row)) for row in rows.tolist()]
    return TextBatch(_table([inputs for inputs, _ in lines], pad), _table([labels for _, labels in lines], PAD))


def label_batch(texts: EncodedTexts, rows: NDArray[np.int64], *, pad: int = PAD) -> LabelBatch:
    """Lines for a classifier."""
    lines = [texts.text.line(int(row)) for row in rows]
    return LabelBatch(_table(lines, pad), torch.from_numpy(np.asarray(texts.labels[rows])))


def picture_batch(pictures: EncodedPictures, rows: NDArray[np.int64], shift: int, key: tuple[int, int]) -> PictureBatch:
    """Images for a classifier, each moved by up to ``shift`` pixels: how follows from ``key`` (seed and epoch) and the
    index."""
    pixels = np.ascontiguousarray(pictures.pixels[rows])
    if shift:
        pixels = np.stack([moved(image, shift, (*key, row)) for image, row in zip(pixels, rows.tolist(), strict=True)])
    return PictureBatch(torch.from_numpy(pixels), torch.from_numpy(pictures.labels[rows]))


def _table(lines: Sequence[NDArray[Any]], pad: int) -> Int[Tensor, "b n"]:
    """Lines as they are, padded at the right."""
    table = np.full((len(lines), max(map(len, lines))), pad, dtype=np.int64)
    for row, line in zip(table, lines, strict=True):
        row[: len(line)] = line
    return torch.from_numpy(table)


def padding_share(examples: Encoded, batches: Iterable[NDArray[np.int64]]) -> float:
    """Which part of all tokens in these batches is padding, over all sides."""
    real = padded = 0
    for rows in batches:
        for lengths in examples.sizes_of(rows):
            real += int(lengths.sum())
            padded += len(rows) * int(lengths.max())
    return 1 - real / padded
