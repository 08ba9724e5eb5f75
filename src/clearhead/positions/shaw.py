"""Relative positions as learned vectors, added to keys and values (Shaw et al. 2018, L2.12).

Shapes: b batch, n queries, m keys, h heads, d features of a query, e features of a value, k the largest distance that
is distinguished.
"""

from typing import Literal

from jaxtyping import Float, Int
from torch import Tensor, nn

from clearhead.positions.base import RelativePosition, Tables
from clearhead.recipe import ShawSpec

Relative = Literal["keys", "values", "both"]


def shaw_index(queries: Int[Tensor, "*b n"], keys: Int[Tensor, "*b m"], farthest: int) -> Int[Tensor, "*b n m"]:
    """clip(j − i, −k, k) + k: the row of the table for query i and key j, from 0 to 2k."""
    return (keys.unsqueeze(-2) - queries.unsqueeze(-1)).clamp(-farthest, farthest) + farthest


class ShawPosition(RelativePosition):
    """score(i, j) = q_i·(k_j + a_{j−i}), output_i = Σ_j α_ij (v_j + b_{j−i}), with tables a and b shared by all heads.

    Neither sum is formed for every pair: q_i·a has 2k + 1 values for each query, from which the keys' are gathered, and
    the weights are summed by distance before the product with b.

    Args:
        head_size: features of a query and of a key in one head, d; a is (2k + 1, d).
        value_size: features of a value in one head, e; b is (2k + 1, e).
        farthest: k, the largest distance that is distinguished in each direction. Default: 16.
        relative: which tables there are: ``keys`` (a), ``values`` (b) or ``both`` (the default).
    """

    def __init__(self, *, head_size: int, value_size: int, farthest: int = 16, relative: Relative = "both") -> None:
        super().__init__()
        self.farthest, self.relative = farthest, relative
        self.alike_beyond = farthest
        self.keys = nn.Embedding(2 * farthest + 1, head_size) if relative != "values" else None
        self.values = nn.Embedding(2 * farthest + 1, value_size) if relative != "keys" else None
        self.weighs_positions = self.values is not None

    @classmethod
    def from_spec(cls, spec: ShawSpec, *, heads: int, head_size: int, value_size: int, causal: bool) -> "ShawPosition":
        """Build from a recipe."""
        del heads, causal
        return cls(head_size=head_size, value_size=value_size, farthest=spec.farthest, relative=spec.relative)

    def extra_repr(self) -> str:
        return f"{self.relative}, up to {self.farthest} tokens away"

    def key_term(
        self, query: Float[Tensor, "b h n d"], queries: Int[Tensor, "*b n"], keys: Int[Tensor, "*b m"]
    ) -> Float[Tensor, "b h n m"] | None:
        """Return q_i·a_{j−i}."""
        if self.keys is None:
            return None
        return (query @ self.keys.weight.T).gather(-1, self._index(query, queries, keys))

    def value_term(
        self, weights: Float[Tensor, "b h n m"], queries: Int[Tensor, "*b n"], keys: Int[Tensor, "*b m"]
    ) -> Float[Tensor, "b h n e"] | None:
        """Return Σ_j α_ij b_{j−i}."""
        if self.values is None:
            return None
        by_distance = weights.new_zeros(*weights.shape[:3], len(self.values.weight))
        return by_distance.scatter_add(-1, self._index(weights, queries, keys), weights) @ self.values.weight

    def tables(self, distances: Int[Tensor, "w"]) -> Tables:
        rows = distances.clamp(-self.farthest, self.farthest) + self.farthest
        keys, values = (None if table is None else table(rows)[None] for table in (self.keys, self.values))
        return Tables(keys=keys, values=values)

    def _index(
        self, like: Float[Tensor, "b h n x"], queries: Int[Tensor, "*b n"], keys: Int[Tensor, "*b m"]
    ) -> Int[Tensor, "b h n m"]:
        index = shaw_index(queries, keys, self.farthest).unsqueeze(-3)  # the same for all heads
        return index.expand(*like.shape[:2], *index.shape[-2:])
