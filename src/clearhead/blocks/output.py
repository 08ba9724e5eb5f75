"""The output layer, from vectors to logits.

Shapes: n tokens, d features, e features of the embedding (d, unless it has its own), V entries of the vocabulary.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.attention import soft_cap
from clearhead.blocks.feedforward import ACTIVATIONS


class HeadTransform(nn.Module):
    """norm(act(xW + b)): the transform before the logits of BERT and RoBERTa.

    Args:
        width: features of a vector, d.
        out_width: features of the embedding that the logits are made with.
        activation: the name of act.
        norm: the norm.
        bias: whether there is b. Default: True.
    """

    def __init__(self, *, width: int, out_width: int, activation: str, norm: nn.Module, bias: bool = True) -> None:
        super().__init__()
        self.map, self.norm = nn.Linear(width, out_width, bias=bias), norm
        self.activation, self._name = ACTIVATIONS[activation], activation

    def extra_repr(self) -> str:
        return self._name

    def forward(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b e"]:
        """Transform every vector independently."""
        active = self.activation(self.map(x))
        rows = active.reshape(1, -1, active.shape[-1])  # (1, n, e): norms take a batch of lines
        normed: Tensor = self.norm(rows)
        return normed.view(active.shape)


class Output(nn.Module):
    """xEᵀ + b, where E may be tied to the embedding.

    Args:
        weight: E, (V, d). A parameter is used as it is, and so is tied to its owner; a tensor becomes a new parameter.
        bias: whether there is b. Default: False.
        scaled: whether x is divided by √d first (T5). Default: False.
        transform: applied to x first. Default: none.
        cap: keeps the logits within ±cap. Default: None, they are free.
    """

    def __init__(
        self,
        weight: Float[Tensor, "V d"],
        *,
        bias: bool = False,
        scaled: bool = False,
        transform: HeadTransform | None = None,
        cap: float | None = None,
    ) -> None:
        super().__init__()
        self.transform, self.cap = transform, cap
        # a parameter stays the same object, so that it is tied
        self.weight = weight if isinstance(weight, nn.Parameter) else nn.Parameter(weight)
        self.bias = nn.Parameter(torch.zeros(len(weight))) if bias else None
        self.scale = 1.0 / math.sqrt(weight.shape[1]) if scaled else 1.0

    def before(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b e"]:
        """Scale and transform vectors, as is done before the product with Eᵀ."""
        x = x if self.scale == 1.0 else x * self.scale
        return x if self.transform is None else self.transform(x)

    def after(self, x: Float[Tensor, "*b e"]) -> Float[Tensor, "*b V"]:
        """The logits of vectors that were scaled and transformed."""
        return soft_cap(F.linear(x, self.weight, self.bias), self.cap)

    def forward(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b V"]:
        """Return a logit for every entry of the vocabulary."""
        return self.after(self.before(x))
