"""Dropout with fewer random numbers than torch's: on a CPU, drawing them is what dropout costs."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Dropout(nn.Module):
    """While training, each entry is 0 with probability p, and otherwise divided by 1 − p, so that its mean stays.

    torch draws a number per entry; one of 64 bits is enough for four of them, each compared with p·2¹⁶. The draws come
    from torch's own generator, so that a seed fixes them and a checkpoint can hold its state.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def extra_repr(self) -> str:
        """Settings, for people."""
        return f"{self.p:g}"

    def forward(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """Drop some entries, or none outside of training."""
        dropped = round(self.p * 2**16)  # of 2¹⁶
        if not self.training or dropped == 0:
            return x
        if dropped == 2**16:
            return x * 0.0
        draws = torch.empty(math.ceil(x.numel() / 4), dtype=torch.int64, device=x.device).random_(-(2**63), None)
        sixteen = draws.view(torch.int16)[: x.numel()].view(x.shape)  # each of −2¹⁵ … 2¹⁵ − 1 is as likely
        keep = (sixteen >= dropped - 2**15).to(x.dtype)
        return x * keep.div_(1.0 - dropped / 2**16)
