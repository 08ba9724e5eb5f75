"""Learning-rate schedules."""

import math
from collections.abc import Sequence

from clearhead.recipe import ScheduleSpec, TrainingSpec


def rate_at(step: int, spec: ScheduleSpec, total: int, replans: Sequence[Sequence[int]] = ()) -> float:
    """The learning rate at a step, counted from 0, as a share of the highest rate: linear warmup, then the schedule.

    ``replans`` are (step, total, …): from that step on, the run is to end at another total. The rate does not jump
    there: what is left of the schedule is spread over the steps that are left, so that it ends where the run ends.
    """
    warmup = max(1, round(spec.warmup if spec.warmup >= 1 else spec.warmup * total))
    if step < warmup:
        return (step + 1) / warmup
    left = _left(step, warmup, total, replans)
    if spec.kind == "cosine":
        return 0.5 * (1 - math.cos(math.pi * left))
    if spec.kind == "linear":
        return left
    return math.sqrt(warmup / (step + 1)) if spec.kind == "inverse-sqrt" else 1.0


def total_at(step: int, total: int, replans: Sequence[Sequence[int]] = ()) -> int:
    """The number of steps that a run is to have, as it is known after ``step`` steps."""
    for at, other, *_ in replans:
        if at <= step:
            total = other
    return total


def _left(step: int, warmup: int, total: int, replans: Sequence[Sequence[int]]) -> float:
    """The share of the schedule that is left, from 1 after the warmup to 0 at the end."""
    left, since = 1.0, warmup
    for at, other, *_ in replans:
        if at > step:
            break
        begin = max(at, warmup)
        left *= max(0.0, (total - begin) / max(1, total - since))
        since, total = begin, other
    return left * max(0.0, (total - step) / max(1, total - since))


def describe_schedule(spec: TrainingSpec, start: int, total: int) -> str:
    """Describe the learning rate from step ``start`` on: the schedule, and the rate at three steps."""
    rate, peak = [], spec.optimizer.rate
    places = [step for step in dict.fromkeys((start, (start + total) // 2, total - 1)) if start <= step < total]
    for step in places:
        rate.append(f"{peak * rate_at(step, spec.schedule, total):.2e} at step {step + 1:,}")
    return f"{spec.schedule.kind} schedule over {total:,} steps, from step {start + 1:,} on: rate {', '.join(rate)}"
