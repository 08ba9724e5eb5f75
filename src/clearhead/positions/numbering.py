"""Numbering the tokens of a batch, wherever its padding stands."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def is_left_aligned(valid: Bool[Tensor, "b n"]) -> bool:
    """Whether all padding stands at the right edge, so that column numbers are positions."""
    return bool((valid[:, 1:] <= valid[:, :-1]).all())


def positions_of(
    length: int, valid: Bool[Tensor, "b n"] | None, device: torch.device
) -> Int[Tensor, "n"] | Int[Tensor, "b n"]:
    """Positions counted from each line's first real token.

    One shared row when every line starts at the left edge (the usual case, and the cheap one); otherwise a row per
    line: without it a left-padded line would be off by whole units. Padding itself gets a position that nobody reads.
    """
    if valid is None or is_left_aligned(valid):
        return torch.arange(length, device=device)
    return (valid.long().cumsum(dim=1) - 1).clamp(min=0)
