"""The two hooks through which positions enter a model.

Shapes: b batch, n queries, m keys, h heads, d features, e of a value, w distances. Positions are whole numbers counted
from the first real token; a batch whose lines all start at the left edge shares one row of them, ``(n,)``, otherwise
``(b, n)``.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class AbsolutePosition(nn.Module):
    """A vector for each position, added to the token embeddings once."""

    def forward(self, positions: Int[Tensor, "*b n"], end: int) -> Float[Tensor, "*b n d"] | None:
        """The vectors of these positions, all of which are below ``end``; None if the scheme adds nothing."""
        raise NotImplementedError


def by_distance(values: Float[Tensor, "*c r"], keys: int) -> Float[Tensor, "*c n m"]:
    """Spread values of r = n + m − 1 neighbouring distances over all pairs: entry (i, j) is value j − i + n − 1."""
    return values.unfold(-1, keys, 1).flip(-2)


def neighbouring_distances(queries: Int[Tensor, "n"], keys: Int[Tensor, "m"]) -> Int[Tensor, "r"]:
    """All distances j − i between positions that follow one another, from the lowest: r = n + m − 1, not n·m."""
    return keys[0] - queries[-1] + torch.arange(len(queries) + len(keys) - 1, device=keys.device)


class Tables(NamedTuple):
    """What a scheme holds for distances, one row each; h is 1 if all heads share it."""

    keys: Float[Tensor, "h w d"] | None = None
    """Meets the queries, as a key does."""
    values: Float[Tensor, "h w e"] | None = None
    """Is added to the values."""
    bias: Float[Tensor, "h w"] | None = None
    """Is added to the scores."""


class RelativePosition(nn.Module):
    """What a scheme may do inside attention: each part does nothing unless the scheme overrides it."""

    alike_beyond: int | None = None
    """A scheme that has ``tables`` says here from which distance on, in either direction, their rows are alike."""
    weighs_positions = False
    """Whether ``value_term`` does something, for which the weights must be formed."""

    def rotate(self, heads: Float[Tensor, "b h n d"], positions: Int[Tensor, "*b n"]) -> Float[Tensor, "b h n d"]:
        """Change queries, or keys, by where they stand, before they meet (RoPE). Cached keys stay rotated."""
        del positions
        return heads

    def bias(self, queries: Int[Tensor, "*b n"], keys: Int[Tensor, "*b m"]) -> Float[Tensor, "*c h n m"] | None:
        """A term added to the scores, from positions alone; not scaled."""
        del queries, keys
        return None

    def key_term(
        self, query: Float[Tensor, "b h n d"], queries: Int[Tensor, "*b n"], keys: Int[Tensor, "*b m"]
    ) -> Float[Tensor, "b h n m"] | None:
        """A term added to q·k, from the query and where the key stands (Shaw); scaled as q·k is."""
        del query, queries, keys
        return None

    def value_term(
        self, weights: Float[Tensor, "b h n m"], queries: Int[Tensor, "*b n"], keys: Int[Tensor, "*b m"]
    ) -> Float[Tensor, "b h n e"] | None:
        """A term added to the heads' outputs, from the weights and where the values stand (Shaw)."""
        del weights, queries, keys
        return None

    def tables(self, distances: Int[Tensor, "w"]) -> Tables:
        """All that the scheme does, by distance j − i."""
        raise NotImplementedError


class DistanceBias(RelativePosition):
    """A scheme that adds to the scores what the distance of a key from a query says, and does nothing else."""

    def tables(self, distances: Int[Tensor, "w"]) -> Tables:
        """A bias alone."""
        return Tables(bias=self.of_distance(distances))

    def of_distance(self, distances: Int[Tensor, "*s"]) -> Float[Tensor, "h *s"]:
        """What is added at distances j − i."""
        raise NotImplementedError

    def bias(self, queries: Int[Tensor, "*b n"], keys: Int[Tensor, "*b m"]) -> Float[Tensor, "*b h n m"]:
        """That of every query i and key j; lines that share their positions have n + m − 1 distances, not n·m."""
        if queries.dim() == 1:
            return by_distance(self.of_distance(neighbouring_distances(queries, keys)), len(keys))
        return self.of_distance(keys.unsqueeze(-2) - queries.unsqueeze(-1)).transpose(0, 1)  # (b, h, n, m)
