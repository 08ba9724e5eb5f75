"""Learning-rate schedules."""

import math

from clearhead.recipe import ScheduleSpec, TrainingSpec


def rate_at(step: int, spec: ScheduleSpec, total: int) -> float:
    """The learning rate at a step, counted from 0, as a share of the highest rate: linear warmup, then the schedule."""
    warmup = max(1, round(spec.warmup if spec.warmup >= 1 else spec.warmup * total))
    if step < warmup:
        return (step + 1) / warmup
    left = max(0.0, (total - step) / max(1, total - warmup))
    if spec.kind == "cosine":
        return 0.5 * (1 - math.cos(math.pi * left))
    if spec.kind == "linear":
        return left
    return math.sqrt(warmup / (step + 1)) if spec.kind == "inverse-sqrt" else 1.0


def describe_schedule(spec: TrainingSpec, start: int, total: int) -> str:
    """Describe the learning rate from step ``start`` on: the schedule, and the rate at three steps."""
    rate, peak = [], spec.optimizer.rate
    places = [step for step in dict.fromkeys((start, (start + total) // 2, total - 1)) if start <= step < total]
    for step in places:
        rate.append(f"{peak * rate_at(step, spec.schedule, total):.2e} at step {step + 1:,}")
    return f"{spec.schedule.kind} schedule over {total:,} steps, from step {start + 1:,} on: rate {', '.join(rate)}"
