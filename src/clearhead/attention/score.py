"""Scores, which compare a query with a key. One of the four parts of attention.

Shapes: n queries, m keys, h heads, d features of a head.
"""

import math
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

ScoreName = Literal["dot", "multiplicative", "additive"]
Scale = Literal["sqrt", "dim", "none"] | float
_DIVISORS: dict[Scale, str] = {"sqrt": "√d", "dim": "d"}


def divisor(scale: Scale, size: int) -> float:
    """The number by which a dot product over ``size`` features is divided.

    q·k has variance d_k for independent entries of variance 1 (L4.8), so dividing by √d_k gives variance 1; dividing by
    d_k, as one set of notes has it, gives 1/d_k (L2.9).
    """
    if scale == "sqrt":
        return math.sqrt(size)
    if scale == "dim":
        return float(size)
    if isinstance(scale, str) and scale != "none":
        raise ValueError(f"no scale {scale!r} (there are: sqrt, dim, none, or a number)")
    return 1.0 if scale == "none" else float(scale)


def dot(query: Float[Tensor, "*b n d"], keys: Float[Tensor, "*b m d"]) -> Float[Tensor, "*b n m"]:
    """q·k = Σ_u q[u] k[u] for every query and key, a sum over features (L0.2, L3.2)."""
    return query @ keys.transpose(-1, -2)


def additive(
    query: Float[Tensor, "*b n d"], keys: Float[Tensor, "*b m d"], direction: Float[Tensor, "*h d"]
) -> Float[Tensor, "*b n m"]:
    """u·tanh(q + k), Bahdanau's score; W_Q and W_K are the projections of the head (L4.5)."""
    meeting = torch.tanh(query.unsqueeze(-2) + keys.unsqueeze(-3))  # (*b, n, m, d)
    return (meeting * direction[..., None, None, :]).sum(-1)


def soft_cap(x: Float[Tensor, "*s"], cap: float | None) -> Float[Tensor, "*s"]:
    """c·tanh(x/c), which stays within ±c and leaves small x as it is (Gemma 2); x itself without a cap."""
    return x if cap is None else cap * torch.tanh(x / cap)


class DotScore(nn.Module):
    """q·k, without parameters; the base class of the other scores."""

    formula = "q·k"
    products = True
    """Whether the score is a dot product: then it is scaled by the head size, and the fused kernel supports it."""

    def shown(self, scale: Scale) -> str:
        """The score as a formula."""
        product = self.formula
        return product if scale == "none" or not self.products else f"{product}/{_DIVISORS.get(scale, scale)}"

    def fold(self, query: Float[Tensor, "b h n d"]) -> Float[Tensor, "b h n d"]:
        """Transform a query so that the score is its dot product with a key, where possible."""
        return query

    def forward(self, query: Float[Tensor, "b h n d"], keys: Float[Tensor, "b h m d"]) -> Float[Tensor, "b h n m"]:
        """The score of a folded query and a key."""
        return dot(query, keys)


class MultiplicativeScore(DotScore):
    """q·W·k with a matrix per head, Luong's "general" score; W_Q W W_Kᵀ has rank ≤ d̃_q (L2.5).

    Args:
        heads: number of heads, h.
        size: features of a query and of a key in one head; W is (h, size, size).
    """

    formula = "q·W·k"

    def __init__(self, *, heads: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, size, size))
        nn.init.normal_(self.weight, std=size**-0.5)

    def fold(self, query: Float[Tensor, "b h n d"]) -> Float[Tensor, "b h n d"]:
        """qW, after which the score is a plain dot product."""
        return query @ self.weight


class AdditiveScore(DotScore):
    """u·tanh(q + k) with a vector u per head, Bahdanau's score (L4.5).

    Args:
        heads: number of heads, h.
        size: features of a query and of a key in one head; u is (h, size).
    """

    formula = "u·tanh(q+k)"
    products = False

    def __init__(self, *, heads: int, size: int) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.empty(heads, size))
        nn.init.normal_(self.direction, std=size**-0.5)

    def forward(self, query: Float[Tensor, "b h n d"], keys: Float[Tensor, "b h m d"]) -> Float[Tensor, "b h n m"]:
        return additive(query, keys, self.direction)


def make_score(name: ScoreName, *, heads: int, size: int) -> DotScore:
    """Make the score of this name."""
    if name == "multiplicative":
        return MultiplicativeScore(heads=heads, size=size)
    if name == "additive":
        return AdditiveScore(heads=heads, size=size)
    if name == "dot":
        return DotScore()
    raise ValueError(f"no score {name!r} (there are: dot, multiplicative, additive)")
