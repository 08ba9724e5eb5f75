"""How probable given answers are: the true tokens are fed in, one pass for all of them (L0.1).

Shapes: b lines, n source tokens, m target tokens, V tokens of the vocabulary.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.attention import choosing
from clearhead.data import PAD
from clearhead.models import LanguageModel, Model, Seq2Seq

Choosing = Literal["trained", "soft", "hard"]
"""How attention chooses: `decoding.attention`."""
LINES = 64
"""Lines of a pass."""
TOKENS = 2048
"""Padded tokens of a pass over texts."""


@dataclass(frozen=True)
class Forced:
    """One target, as the model sees it."""

    log_probabilities: list[float]
    """log p(y_l | y_<l; x) of every token that counts, the end among them."""
    right: int
    """Tokens that are the most probable ones."""

    @property
    def log_probability(self) -> float:
        """log p(y | x) = Σ log p(y_l | y_<l; x)."""
        return sum(self.log_probabilities)


def forced(
    model: Seq2Seq, sources: Sequence[list[int]], targets: Sequence[list[int]], attention: Choosing = "trained"
) -> list[Forced]:
    """The probability of each target given its source; both end with the end token."""
    first = model.spec.vocabulary.first
    assert first is not None
    order = sorted(range(len(targets)), key=lambda index: (len(targets[index]), len(sources[index])))
    device = device_of(model)
    results = [Forced([], 0)] * len(targets)
    with evaluating(model, attention):
        for start in range(0, len(order), LINES):
            rows = order[start : start + LINES]
            source, there = padded([sources[row] for row in rows])
            inputs, _ = padded([[first, *targets[row][:-1]] for row in rows])
            logits = model(source.to(device), inputs.to(device), None if there is None else there.to(device))
            for row, line in zip(rows, _judged(logits.cpu(), [targets[row] for row in rows]), strict=True):
                results[row] = line
    return results


def forced_windows(model: LanguageModel, rows: Sequence[list[int]], attention: Choosing = "trained") -> list[Forced]:
    """The probability of every token of these rows but the first, given the ones before it."""
    results = [Forced([], 0)] * len(rows)
    with evaluating(model, attention):
        for batch in batches([len(row) for row in rows], TOKENS):
            inputs, _ = padded([rows[index][:-1] for index in batch])
            logits = model(inputs.to(device_of(model))).cpu()
            for index, line in zip(batch, _judged(logits, [rows[index][1:] for index in batch]), strict=True):
                results[index] = line
    return results


def _judged(logits: Float[Tensor, "b m V"], targets: Sequence[list[int]]) -> Iterator[Forced]:
    """What the logits say of these targets, row by row."""
    labels, _ = padded(targets)
    log_p = logits.log_softmax(-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1).double().tolist()
    right = (logits.argmax(-1) == labels).tolist()
    for target, values, hits in zip(targets, log_p, right, strict=True):
        yield Forced(values[: len(target)], sum(hits[: len(target)]))


def joined(parts: Sequence[Forced]) -> Forced:
    """A line from its windows."""
    return Forced([value for part in parts for value in part.log_probabilities], sum(part.right for part in parts))


@contextmanager
def evaluating(model: Model, attention: Choosing = "trained") -> Iterator[None]:
    """No dropout, no gradients, attention that chooses as asked for; afterwards the model is as it was."""
    was_training = model.training
    if was_training:  # to walk over all modules takes as long as a token
        model.eval()
    try:
        with torch.inference_mode(), nullcontext() if attention == "trained" else choosing(model, attention):
            yield
    finally:
        if was_training:
            model.train()


def device_of(model: Model) -> torch.device:
    """Where a model is."""
    return next(model.parameters()).device


def batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """The numbers of all lines, those of a length together, in batches of at most ``budget`` padded tokens."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    for rows in spans([lengths[index] for index in order], budget):
        yield [order[row] for row in rows]


def spans(lengths: Sequence[int], budget: int) -> Iterator[range]:
    """Cut sorted lines into batches of at most ``budget`` padded tokens."""
    cuts = [0]
    for index, length in enumerate(lengths):
        if length * (index - cuts[-1] + 1) > budget and index > cuts[-1]:
            cuts.append(index)
    for start, end in pairwise([*cuts, len(lengths)]):
        if start < end:
            yield range(start, end)


def padded(rows: Sequence[list[int]]) -> tuple[Int[Tensor, "b n"], Tensor | None]:
    """Lines as a tensor, padded at the right, and where they are; None if none is padded."""
    width = max(map(len, rows))
    ids = torch.tensor([row + [PAD] * (width - len(row)) for row in rows])
    if min(map(len, rows)) == width:
        return ids, None
    return ids, torch.arange(width) < torch.tensor([[len(row)] for row in rows])
