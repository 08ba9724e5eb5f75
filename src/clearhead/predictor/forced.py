"""How probable given answers are: the true tokens are fed in, one pass for all of them (L0.1).

Shapes: b lines, n source tokens, m target tokens, V tokens of the vocabulary.
"""

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.attention import choosing
from clearhead.data import PAD
from clearhead.errors import DoesNotFit
from clearhead.models import LanguageModel, Model, Seq2Seq

Choosing = Literal["trained", "soft", "hard"]
"""How attention chooses: `decoding.attention`."""
LINES = 64
"""Lines of a pass."""
TOKENS = 2048
"""Padded tokens of a pass over texts."""


@dataclass(frozen=True)
class ForcedLine:
    """One target, as the model sees it."""

    log_probabilities: list[float]
    """log p(y_l | y_<l; x) of every token that counts, the end among them."""
    right: int
    """Tokens that are the most probable ones."""
    cut: bool = False
    """Whether the source was longer than decoding.max_source, and only its beginning was read."""

    @property
    def log_probability(self) -> float:
        """log p(y | x) = Σ log p(y_l | y_<l; x)."""
        return sum(self.log_probabilities)


def forced(
    model: Seq2Seq, sources: Sequence[list[int]], targets: Sequence[list[int]], attention: Choosing = "trained"
) -> list[ForcedLine]:
    """The probability of each target given its source; both end with the end token."""
    first = model.spec.vocabulary.first
    assert first is not None
    order = sorted(range(len(targets)), key=lambda index: (len(targets[index]), len(sources[index])))
    device = device_of(model)
    results = [ForcedLine([], 0)] * len(targets)
    for start in range(0, len(order), LINES):
        rows = order[start : start + LINES]
        source, there = padded([sources[row] for row in rows])
        inputs, _ = padded([[first, *targets[row][:-1]] for row in rows])
        with evaluating(model, attention):
            logits = model(source.to(device), inputs.to(device), None if there is None else there.to(device))
        for row, line in zip(rows, _judged(logits.cpu(), [targets[row] for row in rows]), strict=True):
            results[row] = line
    return results


def forced_windows(
    model: LanguageModel, rows: Sequence[list[int]], attention: Choosing = "trained"
) -> list[ForcedLine]:
    """The probability of every token of these rows but the first, given the ones before it."""
    results = [ForcedLine([], 0)] * len(rows)
    for batch in batches([len(row) for row in rows], TOKENS):
        inputs, _ = padded([rows[index][:-1] for index in batch])
        with evaluating(model, attention):
            logits = model(inputs.to(device_of(model))).cpu()
        for index, line in zip(batch, _judged(logits, [rows[index][1:] for index in batch]), strict=True):
            results[index] = line
    return results


def _judged(logits: Float[Tensor, "b m V"], targets: Sequence[list[int]]) -> Iterator[ForcedLine]:
    """What the logits say of these targets, row by row."""
    labels, _ = padded(targets)
    log_p = logits.log_softmax(-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1).double().tolist()
    right = (logits.argmax(-1) == labels).tolist()
    for target, values, hits in zip(targets, log_p, right, strict=True):
        yield ForcedLine(values[: len(target)], sum(hits[: len(target)]))


def joined(parts: Sequence[ForcedLine]) -> ForcedLine:
    """A line from its windows."""
    return ForcedLine([value for part in parts for value in part.log_probabilities], sum(part.right for part in parts))


@contextmanager
def evaluating(model: Model, attention: Choosing = "trained") -> Iterator[None]:
    """No dropout, no gradients, attention that chooses as asked for; afterwards the model is as it was.

    One thread at a time has the model: what is switched here, and what modules keep for later, is switched for all.
    So no caller may hold it for long, or while it waits for somebody else.
    """
    with _lock_of(model):
        was_training = model.training
        if was_training:  # to walk over all modules takes as long as a token
            model.eval()
        try:
            with torch.inference_mode(), nullcontext() if attention == "trained" else choosing(model, attention):
                yield
        except RuntimeError as error:
            if "not enough memory" not in str(error):
                raise
            way_out = "a smaller decoding.batch_tokens, decoding.beam_size or decoding.max_source may help"
            raise DoesNotFit(f"there is not enough memory to answer: {way_out}") from None
        finally:
            if was_training:
                model.train()


_locks: "WeakKeyDictionary[Model, threading.RLock]" = WeakKeyDictionary()
if hasattr(os, "register_at_fork"):
    # a process that is forked while a thread has a model would wait for it for ever
    os.register_at_fork(after_in_child=_locks.clear)


def _lock_of(model: Model) -> "threading.RLock":
    lock = _locks.get(model)
    # of two threads that come first, setdefault lets one win
    return lock if lock is not None else _locks.setdefault(model, threading.RLock())


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
