"""The choice: soft (softmax) or hard (argmax) weights from scores. One of the four parts of attention."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

Choice = Literal["soft", "hard"]


def check_choice(choice: Choice) -> Choice:
    """Return the choice; raise ``ValueError`` if there is no such choice."""
    if choice not in ("soft", "hard"):
        raise ValueError(f"no choice {choice!r} (there are: soft, hard)")
    return choice


def choose(
    scores: Float[Tensor, "*b n m"], mask: Bool[Tensor, "..."] | None = None, choice: Choice = "soft"
) -> Float[Tensor, "*b n m"]:
    """Turn scores into weights over the keys: a softmax, or 1 for the best key and 0 for the others (L0.3).

    ``mask`` is True where a query may attend to a key. A query that may attend to no key gets zero weights and zero
    gradients, never NaN: masked scores become the smallest finite number, then masked weights are set to zero.

    The hard choice takes the first of equal scores, and its gradient is that of the softmax (straight-through). Written
    as (onehot − soft).detach() + soft, its forward value is exactly one-hot, as rounding restores 0 and 1; (onehot +
    soft) − soft would be off by 6e-8.
    """
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1)
    if choice == "hard":
        best = torch.zeros_like(weights).scatter(-1, scores.argmax(dim=-1, keepdim=True), 1.0)
        weights = (best - weights).detach() + weights
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return weights


@contextmanager
def use_choice(model: nn.Module, choice: Choice) -> Iterator[None]:
    """Switch every attention of a model to soft or hard choice inside a ``with`` block."""
    parts = [part for part in model.modules() if getattr(part, "choice", None) in ("soft", "hard")]
    before = [part.choice for part in parts]
    for part in parts:
        part.choice = choice  # type: ignore[assignment]
    try:
        yield
    finally:
        for part, old in zip(parts, before, strict=True):
            part.choice = old
