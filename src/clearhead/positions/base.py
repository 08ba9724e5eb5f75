"""The two interfaces through which positions enter a model.

Shapes: b batch, n queries, m keys, h heads, d features, e features of a value, w distances. Positions are whole numbers
counted from the first token that is not padding: ``(n,)`` if all lines of a batch start at the left edge, otherwise
``(b, n)``.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

Turns = tuple[Float[Tensor, "*c n half"], Float[Tensor, "*c n half"]]
"""cos and sin of the angles that pairs of features are rotated by."""


class AbsolutePosition(nn.Module):
    """A vector for each position, added to the token embeddings."""

    def forward(self, positions: Int[Tensor, "*b n"], end: int) -> Float[Tensor, "*b n d"] | None:
        """Return the vectors of these positions, all below ``end``; None to add nothing."""
        raise NotImplementedError


def by_distance(values: Float[Tensor, "*c r"], keys: int) -> Float[Tensor, "*c n m"]:
    """Expand the values of r = n + m − 1 consecutive distances to all pairs: entry (i, j) is value j − i + n − 1."""
    if torch.compiler.is_compiling():  # other engines have no windows of an open length, nor has a compiled graph
        queries = values.shape[-1] - keys + 1
        rows = torch.arange(queries - 1, -1, -1, device=values.device)
        return values[..., rows.unsqueeze(-1) + torch.arange(keys, device=values.device)]
    return values.unfold(-1, keys, 1).flip(-2)


def neighbouring_distances(queries: Int[Tensor, "n"], keys: Int[Tensor, "m"]) -> Int[Tensor, "r"]:
    """All distances j − i between consecutive positions, from the lowest: r = n + m − 1 of them, not n·m."""
    return keys[0] - queries[-1] + torch.arange(queries.shape[0] + keys.shape[0] - 1, device=keys.device)


class Tables(NamedTuple):
    """The tensors of a scheme by distance, one row for each; h is 1 if all heads share them."""

    keys: Float[Tensor, "h w d"] | None = None
    """Multiplied with queries, as keys are."""
    values: Float[Tensor, "h w e"] | None = None
    """Added to values."""
    bias: Float[Tensor, "h w"] | None = None
    """Added to scores."""


class RelativePosition(nn.Module):
    """The interface of relative position schemes; methods that a scheme does not override have no effect."""

    alike_beyond: int | None = None
    """For schemes with ``tables``: the distance beyond which, in each direction, all rows are the same."""
    weighs_positions = False
    """Whether the scheme has a ``value_term``, for which the attention weights must be formed."""

    def turns(self, positions: Int[Tensor, "*b n"], dtype: torch.dtype) -> Turns | None:
        """What ``turn`` rotates by (RoPE): it depends on positions alone, and serves all layers and heads."""
        del positions, dtype
        return None

    def turn(self, heads: Float[Tensor, "b h n d"], turns: Turns) -> Float[Tensor, "b h n d"]:
        """Rotate queries or keys (RoPE). Keys are cached after rotation."""
        del turns
        return heads

    def rotate(self, heads: Float[Tensor, "b h n d"], positions: Int[Tensor, "*b n"]) -> Float[Tensor, "b h n d"]:
        """Rotate queries or keys by their positions."""
        turns = self.turns(positions, heads.dtype)
        return heads if turns is None else self.turn(heads, turns)

    def bias(self, queries: Int[Tensor, "*b n"], keys: Int[Tensor, "*b m"]) -> Float[Tensor, "*c h n m"] | None:
        """A term added to the scaled scores, from positions alone."""
        del queries, keys
        return None

    def key_term(
        self, query: Float[Tensor, "b h n d"], queries: Int[Tensor, "*b n"], keys: Int[Tensor, "*b m"]
    ) -> Float[Tensor, "b h n m"] | None:
        """A term added to q·k before scaling, from the query and the position of the key (Shaw)."""
        del query, queries, keys
        return None

    def value_term(
        self, weights: Float[Tensor, "b h n m"], queries: Int[Tensor, "*b n"], keys: Int[Tensor, "*b m"]
    ) -> Float[Tensor, "b h n e"] | None:
        """A term added to the heads' outputs, from the weights and the positions of the values (Shaw)."""
        del weights, queries, keys
        return None

    def tables(self, distances: Int[Tensor, "w"]) -> Tables:
        """The scheme's tensors for distances j − i."""
        raise NotImplementedError


class DistanceBias(RelativePosition):
    """A scheme that only adds a bias to the scores, which depends on the distance j − i alone."""

    def tables(self, distances: Int[Tensor, "w"]) -> Tables:
        return Tables(bias=self.of_distance(distances))

    def of_distance(self, distances: Int[Tensor, "*s"]) -> Float[Tensor, "h *s"]:
        """The bias at distances j − i."""
        raise NotImplementedError

    def bias(self, queries: Int[Tensor, "*b n"], keys: Int[Tensor, "*b m"]) -> Float[Tensor, "*b h n m"]:
        """The bias of every query i and key j; with shared positions there are n + m − 1 distances, not n·m."""
        if queries.dim() == 1:
            return by_distance(self.of_distance(neighbouring_distances(queries, keys)), keys.shape[0])
        return self.of_distance(keys.unsqueeze(-2) - queries.unsqueeze(-1)).transpose(0, 1)  # (b, h, n, m)
