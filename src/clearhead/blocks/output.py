"""From vectors back to tokens: the logits.

Shapes: n tokens, d features, V tokens of the vocabulary.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.blocks.feedforward import ACTIVATIONS


class HeadTransform(nn.Module):
    """norm(act(xW + b)): what a vector passes before the logits of BERT and RoBERTa."""

    def __init__(self, *, width: int, activation: str, norm: nn.Module) -> None:
        super().__init__()
        self.map, self.norm = nn.Linear(width, width), norm
        self.activation, self._name = ACTIVATIONS[activation], activation

    def extra_repr(self) -> str:
        """The activation."""
        return self._name

    def forward(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """Every vector on its own."""
        rows = self.activation(self.map(x)).reshape(1, -1, x.shape[-1])  # (1, n, d): a norm wants a batch of lines
        normed: Tensor = self.norm(rows)
        return normed.view(x.shape)


class Output(nn.Module):
    """xEᵀ + b, where E may be the embedding itself (tied), and x may be divided by √d (T5) or transformed first."""

    def __init__(
        self,
        weight: Float[Tensor, "V d"],
        *,
        bias: bool = False,
        scaled: bool = False,
        transform: HeadTransform | None = None,
    ) -> None:
        super().__init__()
        self.transform = transform
        # a parameter stays the same object, so that it is tied to wherever it comes from
        self.weight = weight if isinstance(weight, nn.Parameter) else nn.Parameter(weight)
        self.bias = nn.Parameter(torch.zeros(len(weight))) if bias else None
        self.scale = 1.0 / math.sqrt(weight.shape[1]) if scaled else 1.0

    def before(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """What is multiplied by Eᵀ: vectors, scaled and transformed where the recipe asks for it."""
        x = x if self.scale == 1.0 else x * self.scale
        return x if self.transform is None else self.transform(x)

    def forward(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b V"]:
        """A logit for every token of the vocabulary."""
        return F.linear(self.before(x), self.weight, self.bias)
