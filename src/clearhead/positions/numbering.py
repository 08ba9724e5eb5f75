"""Positions of the tokens of a batch, with padding anywhere."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from clearhead.positions.branching import is_exporting, is_right_padded, may_branch


def is_left_aligned(valid: Bool[Tensor, "b n"]) -> bool:
    """Whether all padding is known to be on the right, so that column numbers are positions."""
    return is_right_padded() or (may_branch(valid) and bool((valid[:, 1:] <= valid[:, :-1]).all()))


def positions_of(
    length: int, valid: Bool[Tensor, "b n"] | None, device: torch.device
) -> Int[Tensor, "n"] | Int[Tensor, "b n"]:
    """Positions counted from the first token of each line that is not padding.

    One shared row if every line starts at the left edge (the usual case, and the cheap one); otherwise one row for each
    line, as a left-padded line would be shifted. Where ``may_branch`` is false, padding brings one row for each line,
    unless ``right_padded`` says that it is not needed. Padding gets a position too, which has no effect.
    """
    if valid is None or is_left_aligned(valid):
        return torch.arange(length, device=device)
    return (valid.long().cumsum(dim=1) - 1).clamp(min=0)


def last_positions(positions: Int[Tensor, "*b t"], count: int) -> Int[Tensor, "*b n"]:
    """The positions of the last ``count`` tokens."""
    total = positions.shape[-1]
    if is_exporting():  # torch.export would tell a slice of everything from other slices
        return positions[..., torch.arange(total - count, total, device=positions.device)]
    return positions[..., total - count :]
