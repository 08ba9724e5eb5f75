"""Teacher forcing: the log-probability of given answers, in one pass over all their tokens (L0.1).

Shapes: b lines, n source tokens, m target tokens, V entries of the vocabulary.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.data import PAD
from clearhead.models import AttentionChoice, LanguageModel, Model, Seq2Seq, device_of, evaluating

LINES = 64
"""Lines per forward pass."""
TOKENS = 2048
"""Padded tokens per forward pass over texts."""


@dataclass(frozen=True)
class ForcedLine:
    """The log-probabilities of one target."""

    log_probabilities: list[float]
    """log p(y_l | y_<l; x) of every token, the end token included."""
    right: int
    """Number of tokens that the model ranks first."""
    cut: bool = False
    """Whether the source was longer than ``decoding.max_source``, so that only its beginning was read."""

    @property
    def log_probability(self) -> float:
        """log p(y | x) = Σ log p(y_l | y_<l; x)."""
        return sum(self.log_probabilities)


def forced(
    model: Seq2Seq,
    sources: Sequence[list[int]],
    targets: Sequence[list[int]],
    attention: AttentionChoice = "trained",
    *,
    first: int | None = None,
    others: Sequence[Seq2Seq] = (),
) -> list[ForcedLine]:
    """Score each target given its source.

    Args:
        model: what scores.
        sources: the token ids of the sources.
        targets: those of the targets, each with its end token.
        attention: the choice of attention. Default: as trained.
        first: the decoder's first token. Default: the usual one.
        others: models whose probabilities are averaged with those of the first. Default: none.
    """
    first = model.spec.vocabulary.first if first is None else first
    assert first is not None
    order = sorted(range(len(targets)), key=lambda index: (len(targets[index]), len(sources[index])))
    results = [ForcedLine([], 0)] * len(targets)
    for start in range(0, len(order), LINES):
        rows = order[start : start + LINES]
        source, valid = padded([sources[row] for row in rows])
        inputs, _ = padded([[first, *targets[row][:-1]] for row in rows])
        logits = _mean(_evaluated(one, attention, source, inputs, valid) for one in (model, *others))
        for row, line in zip(rows, _judged(logits, [targets[row] for row in rows]), strict=True):
            results[row] = line
    return results


def forced_windows(
    model: LanguageModel,
    rows: Sequence[list[int]],
    attention: AttentionChoice = "trained",
    *,
    others: Sequence[LanguageModel] = (),
) -> list[ForcedLine]:
    """Score every token of these rows except the first, given the tokens before it; ``others`` as for ``forced``."""
    results = [ForcedLine([], 0)] * len(rows)
    for batch in batches([len(row) for row in rows], TOKENS):
        inputs, _ = padded([rows[index][:-1] for index in batch])
        logits = _mean(_evaluated(one, attention, inputs) for one in (model, *others))
        for index, line in zip(batch, _judged(logits, [rows[index][1:] for index in batch]), strict=True):
            results[index] = line
    return results


def _evaluated(model: Model, attention: AttentionChoice, *inputs: Tensor | None) -> Float[Tensor, "b m V"]:
    """The logits of one model, on the CPU."""
    device = device_of(model)
    with evaluating(model, attention):
        logits: Tensor = model(*(each if each is None else each.to(device) for each in inputs))
    return logits.cpu()


def _mean(each: Iterable[Float[Tensor, "b m V"]]) -> Float[Tensor, "b m V"]:
    """Logits of the mean of the models' probabilities, up to a constant; those of a single model as they are."""
    rest = iter(each)
    mean = next(rest)
    for number, logits in enumerate(rest):  # one at a time: the logits of a large vocabulary take much memory
        mean = torch.logaddexp(mean if number else mean.log_softmax(-1), logits.log_softmax(-1))
    return mean


def _judged(logits: Float[Tensor, "b m V"], targets: Sequence[list[int]]) -> Iterator[ForcedLine]:
    """Score the targets by these logits, row by row."""
    labels, _ = padded(targets)
    log_p = logits.log_softmax(-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1).double().tolist()
    right = (logits.argmax(-1) == labels).tolist()
    for target, values, hits in zip(targets, log_p, right, strict=True):
        yield ForcedLine(values[: len(target)], sum(hits[: len(target)]))


def joined(parts: Sequence[ForcedLine]) -> ForcedLine:
    """Join the windows of a line."""
    return ForcedLine([value for part in parts for value in part.log_probabilities], sum(part.right for part in parts))


def batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Yield the indices of all lines in batches of similar length, each of at most ``budget`` padded tokens."""
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
    """Stack lines into a tensor, padded on the right; also return where it holds tokens, or None without padding."""
    width = max(map(len, rows))
    ids = torch.tensor([row + [PAD] * (width - len(row)) for row in rows])
    if min(map(len, rows)) == width:
        return ids, None
    return ids, torch.arange(width) < torch.tensor([[len(row)] for row in rows])
