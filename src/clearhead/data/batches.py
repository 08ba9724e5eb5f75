"""Batches: which pairs are trained on together, in which order. All of it follows from (seed, epoch, index).

Shapes: b lines of a batch, n source tokens, m target tokens.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from clearhead.data.arrays import EncodedPairs, Side
from clearhead.data.tokens import BOS, EOS, PAD


@dataclass(frozen=True)
class Batch:
    """What one forward pass sees."""

    source: Int[Tensor, "b n"]
    """Source tokens, each line ended by </s>, padded at the right."""
    inputs: Int[Tensor, "b m"]
    """<s> and the target: what the decoder is fed."""
    labels: Int[Tensor, "b m"]
    """The target and </s>: what it should say."""

    @property
    def tokens(self) -> int:
        """Target tokens that count, without padding."""
        return int((self.labels != PAD).sum())


def plan_epoch(
    pairs: EncodedPairs, *, seed: int, epoch: int, batch_tokens: int, window: int
) -> list[NDArray[np.int64]]:
    """The batches of one epoch, each a row of indices.

    Pairs are shuffled, and inside each window sorted by target and source length, so that lines of a batch are of a
    size and little is padded; then the window's batches are shuffled. A batch has at most ``batch_tokens`` padded
    tokens on its longer side.
    """
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(pairs))
    source, target = pairs.source.lengths + 1, pairs.target.lengths + 1  # with </s>
    batches: list[NDArray[np.int64]] = []
    for start in range(0, len(order), window):
        part = order[start : start + window]
        part = part[np.lexsort((source[part], target[part]))]
        cuts = _cuts(source[part], target[part], batch_tokens)
        rows = np.split(part, cuts)
        batches += [rows[index] for index in rng.permutation(len(rows))]
    return batches


def _cuts(source: NDArray[np.int64], target: NDArray[np.int64], budget: int) -> list[int]:
    """Where to cut a sorted window so that no batch is larger than the budget."""
    cuts, start, longest = [], 0, 0
    for index, size in enumerate(np.maximum(source, target).tolist()):
        wider = max(longest, size)
        if wider * (index - start + 1) > budget and index > start:
            cuts.append(index)
            start, longest = index, size
        else:
            longest = wider
    return cuts


def make_batch(pairs: EncodedPairs, rows: NDArray[np.int64]) -> Batch:
    """The tensors of these pairs."""
    source = _pad(pairs.source, rows, first=None, last=EOS)
    labels = _pad(pairs.target, rows, first=None, last=EOS)
    inputs = _pad(pairs.target, rows, first=BOS, last=None)
    return Batch(source, inputs, labels)


def _pad(side: Side, rows: NDArray[np.int64], *, first: int | None, last: int | None) -> Int[Tensor, "b n"]:
    lines = [side.line(int(row)) for row in rows]
    lengths = np.array([len(line) for line in lines])
    shift = int(first is not None)
    table = np.full((len(rows), int(lengths.max()) + shift + int(last is not None)), PAD, dtype=np.int64)
    for row, line in zip(table, lines, strict=True):
        row[shift : shift + len(line)] = line
    if first is not None:
        table[:, 0] = first
    if last is not None:
        table[np.arange(len(rows)), lengths + shift] = last
    return torch.from_numpy(table)


def padding_share(pairs: EncodedPairs, batches: list[NDArray[np.int64]]) -> float:
    """Which part of all tokens in these batches is padding, over both sides."""
    real = padded = 0
    for side in (pairs.source, pairs.target):
        lengths = side.lengths + 1
        for rows in batches:
            real += int(lengths[rows].sum())
            padded += len(rows) * int(lengths[rows].max())
    return 1 - real / padded
