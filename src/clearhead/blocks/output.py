"""From vectors back to tokens: the logits.

Shapes: n tokens, d features, V tokens of the vocabulary.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class Output(nn.Module):
    """xEᵀ + b, where E may be the embedding itself (tied) and x may be divided by √d first (T5)."""

    def __init__(self, weight: Float[Tensor, "V d"], *, bias: bool = False, scaled: bool = False) -> None:
        super().__init__()
        # a parameter stays the same object, so that it is tied to wherever it comes from
        self.weight = weight if isinstance(weight, nn.Parameter) else nn.Parameter(weight)
        self.bias = nn.Parameter(torch.zeros(len(weight))) if bias else None
        self.scale = 1.0 / math.sqrt(weight.shape[1]) if scaled else 1.0

    def forward(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b V"]:
        """A logit for every token of the vocabulary."""
        return F.linear(x if self.scale == 1.0 else x * self.scale, self.weight, self.bias)
