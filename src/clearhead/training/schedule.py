"""How the learning rate changes over the steps."""

import math

from clearhead.recipe import Schedule


def rate_at(step: int, spec: Schedule, total: int) -> float:
    """The share of the highest rate at this step, counted from 0: a linear rise, then the schedule."""
    warmup = max(1, round(spec.warmup if spec.warmup >= 1 else spec.warmup * total))
    if step < warmup:
        return (step + 1) / warmup
    left = max(0.0, (total - step) / max(1, total - warmup))
    if spec.kind == "cosine":
        return 0.5 * (1 - math.cos(math.pi * left))
    if spec.kind == "linear":
        return left
    return math.sqrt(warmup / (step + 1)) if spec.kind == "inverse-sqrt" else 1.0
