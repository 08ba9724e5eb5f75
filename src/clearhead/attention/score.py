"""Scores: how close a query is to a key. The first of the four things that make an attention.

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
    """What a dot product over ``size`` features is divided by.

    q·k has variance d_k for independent entries of variance 1 (L4.8), so √d_k brings it back to 1; dividing by d_k,
    as one set of notes says, leaves 1/d_k (L2.9).
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


class DotScore(nn.Module):
    """q·k: no weights of its own, and the base of the other scores."""

    formula = "q·k"
    products = True
    """A sum of products: its variance grows with the head size, so it is scaled, and the fused kernel applies."""

    def shown(self, scale: Scale) -> str:
        """The score as a formula, for people."""
        product = self.formula
        return product if scale == "none" or not self.products else f"{product}/{_DIVISORS.get(scale, scale)}"

    def fold(self, query: Float[Tensor, "b h n d"]) -> Float[Tensor, "b h n d"]:
        """What the score does to a query before it meets a key."""
        return query

    def forward(self, query: Float[Tensor, "b h n d"], keys: Float[Tensor, "b h m d"]) -> Float[Tensor, "b h n m"]:
        """The score of a folded query and a key."""
        return dot(query, keys)


class MultiplicativeScore(DotScore):
    """q·W·k with a matrix per head, Luong's "general" score; W_Q W W_Kᵀ has rank ≤ d̃_q (L2.5)."""

    formula = "q·W·k"

    def __init__(self, *, heads: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, size, size))
        nn.init.normal_(self.weight, std=size**-0.5)

    def fold(self, query: Float[Tensor, "b h n d"]) -> Float[Tensor, "b h n d"]:
        """qW, after which the score is a plain dot product."""
        return query @ self.weight


class AdditiveScore(DotScore):
    """u·tanh(q + k) with a direction u per head."""

    formula = "u·tanh(q+k)"
    products = False

    def __init__(self, *, heads: int, size: int) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.empty(heads, size))
        nn.init.normal_(self.direction, std=size**-0.5)

    def forward(self, query: Float[Tensor, "b h n d"], keys: Float[Tensor, "b h m d"]) -> Float[Tensor, "b h n m"]:
        """The scores; they cannot be written as a dot product."""
        return additive(query, keys, self.direction)


def make_score(name: ScoreName, *, heads: int, size: int) -> DotScore:
    """The score of this name, for heads of this size."""
    if name == "multiplicative":
        return MultiplicativeScore(heads=heads, size=size)
    if name == "additive":
        return AdditiveScore(heads=heads, size=size)
    if name == "dot":
        return DotScore()
    raise ValueError(f"no score {name!r} (there are: dot, multiplicative, additive)")
