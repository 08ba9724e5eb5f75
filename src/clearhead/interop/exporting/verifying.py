"""Compares an export with the model that it was made from, number by number and answer by answer.

Shapes: b lines, m places, V entries of the vocabulary.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from clearhead.errors import ClearheadError
from clearhead.interop.exporting.result import Agreement, Target
from clearhead.interop.exporting.sample import Sample, SampleBatch
from clearhead.models import EncoderModel

TOLERANCE = 1e-4
"""By how much a number may differ, as a part of the largest one: engines add up in other orders."""
TIE = 1e-5
"""By how much the best token may be ahead of the second, as a part of its score, for either to be right."""


@runtime_checkable
class Doubled(Protocol):
    """An export that can also be computed in float64."""

    def exact(self, batch: SampleBatch) -> Tensor:
        """``values`` in float64."""


@runtime_checkable
class Foreign(Protocol):
    """An export, loaded by the other library."""

    measure: str
    """What ``values`` gives: ``logits``, or ``log p`` of the right tokens if the library tells no more."""

    def values(self, batch: SampleBatch) -> Tensor:
        """What the model's ``logits`` gives for the batch; with ``log p`` a number for each place, (b, m)."""

    def answers(self, batch: SampleBatch) -> list[list[int]] | None:
        """The greedy answers; None if the model gives none."""


def compare(sample: Sample, foreign: Foreign) -> Agreement:
    """Compare on every batch: all numbers that are not padding, and the greedy answers."""
    worst, largest, values, found = 0.0, 0.0, 0, 0
    leads: list[_Lead] = []  # of answers that differ
    for batch in sample.batches:
        logits = sample.logits(batch)
        ours, theirs = _measured(logits, batch, foreign.measure), foreign.values(batch)
        if ours.shape != theirs.shape:
            shapes = f"{tuple(theirs.shape)} instead of {tuple(ours.shape)}"
            raise ClearheadError(f"the export puts out {foreign.measure} of shape {shapes}")
        if batch.counts is not None:
            ours, theirs = ours[batch.counts], theirs[batch.counts]
        difference = (ours.double() - theirs.double()).abs()
        worst = max(worst, _largest(difference))
        largest, values = max(largest, float(ours.abs().max())), values + ours.numel()
        if batch.answers is None:
            continue
        given = foreign.answers(batch)
        if given is None:
            continue
        for row, (mine, other) in enumerate(zip(batch.answers, given, strict=True)):
            found += 1
            if mine != other:
                leads.append(_lead(sample, batch, row, (mine, other), logits))
    measure = foreign.measure
    if isinstance(sample.model, EncoderModel) and largest and not found:
        measure = "vectors"
    ties = sum(lead.is_tie() for lead in leads)
    agreement = Agreement(measure, worst, largest, values, found, found - len(leads), ties)
    if agreement.holds(TOLERANCE) or not math.isfinite(worst):
        return agreement
    rounding = _rounding(sample, foreign.measure)
    ties = sum(lead.is_tie(rounding) for lead in leads)
    exact = _exact(sample, foreign) if isinstance(foreign, Doubled) else None
    return replace(agreement, ties=ties, rounding=rounding, exact=exact)


class _Lead(NamedTuple):
    """By how much the model preferred its own token where two answers part."""

    lead: float
    """∞ if it is not known."""
    best: float

    def is_tie(self, rounding: float = 0.0) -> bool:
        """Whether either token is right, if scores may be off by ``rounding``."""
        return self.lead <= max(TIE * max(1.0, abs(self.best)), 2 * rounding)


def _exact(sample: Sample, foreign: Doubled) -> float:
    """The largest difference of all numbers in float64."""
    worst = 0.0
    for batch in sample.batches:
        with doubled(sample.model):
            ours = sample.logits(batch)
        difference = (ours - foreign.exact(batch)).abs()
        if batch.counts is not None:
            difference = difference[batch.counts]
        worst = max(worst, _largest(difference))
    return worst


def _rounding(sample: Sample, measure: str) -> float:
    """The largest difference between the model and itself in float64."""
    worst = 0.0
    for batch in sample.batches:
        ours = _measured(sample.logits(batch), batch, measure)
        with doubled(sample.model):
            exact = _measured(sample.logits(batch), batch, measure)
        difference = (ours.double() - exact).abs()
        worst = max(worst, _largest(difference if batch.counts is None else difference[batch.counts]))
    return worst


def _largest(difference: Tensor) -> float:
    """The largest of all differences; ∞ if one is no number."""
    return float(difference.nan_to_num(torch.inf).max())


@contextmanager
def doubled(model: nn.Module) -> Iterator[None]:
    """Compute in float64 for a while; weights of float32 come back as they were."""
    model.double()
    try:
        yield
    finally:
        model.float()


def require_agreement(agreement: Agreement, target: Target, tolerance: float = TOLERANCE) -> None:
    """Refuse an export that computes something else than its model."""
    if not agreement.holds(tolerance):
        raise ClearheadError(
            f"the export to {target} computes something else than the model ({agreement}; the largest value is "
            f"{agreement.largest:.3g}): nothing was written; this is a bug in clearhead or in the other library"
        )


def _measured(logits: Tensor, batch: SampleBatch, measure: str) -> Tensor:
    if measure != "log p":
        return logits
    assert batch.following is not None
    return logits.log_softmax(-1).gather(-1, batch.following.unsqueeze(-1)).squeeze(-1)


def _lead(sample: Sample, batch: SampleBatch, row: int, answers: tuple[list[int], list[int]], logits: Tensor) -> _Lead:
    """The model's lead at the first place where two answers to the same line differ."""
    mine, other = answers
    place = next((at for at, pair in enumerate(zip(mine, other, strict=False)) if pair[0] != pair[1]), None)
    if place is None:
        place = min(len(mine), len(other))
    if logits.dim() == 2:
        scores = logits[row]
    else:
        at = place if batch.target is not None or batch.rows[row] == [] else len(batch.rows[row]) - 1 + place
        if isinstance(sample.model, EncoderModel):
            at = place
        if at >= logits.shape[1]:
            return _Lead(math.inf, 0.0)
        scores = logits[row, at]
    scores = scores.clone()
    scores[sample.banned] = -torch.inf
    best, second = (float(value) for value in scores.topk(2).values)
    return _Lead(best - second, best)
