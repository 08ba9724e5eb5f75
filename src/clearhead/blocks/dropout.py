"""Dropout that draws fewer random numbers than torch's, as drawing them dominates its cost on a CPU."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class Dropout(nn.Module):
    """During training, each entry is 0 with probability p and otherwise divided by 1 − p, which preserves the mean.

    torch draws one number per entry; here one number of 64 bits serves four entries, each compared with p·2¹⁶. The
    numbers come from torch's own generator, so that seeds and checkpoints work as usual.

    Args:
        p: the probability of dropping an entry, rounded to a multiple of 2⁻¹⁶.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def extra_repr(self) -> str:
        return f"{self.p:g}"

    def forward(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """Drop entries during training; return ``x`` otherwise."""
        dropped = round(self.p * 2**16)  # of 2¹⁶
        if not self.training or dropped == 0:
            return x
        if dropped == 2**16:
            return x * 0.0
        if torch.compiler.is_compiling():  # a compiled graph draws its numbers where it uses them
            return F.dropout(x, dropped / 2**16)
        draws = torch.empty(math.ceil(x.numel() / 4), dtype=torch.int64, device=x.device).random_(-(2**63), None)
        sixteen = draws.view(torch.int16)[: x.numel()].view(x.shape)  # each of −2¹⁵ … 2¹⁵ − 1 is as likely
        keep = (sixteen >= dropped - 2**15).to(x.dtype)
        return x * keep.div_(1.0 - dropped / 2**16)
