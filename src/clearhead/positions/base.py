"""The two hooks through which positions enter a model.

Shapes: b batch, n queries, m keys, h heads, d features. Positions are whole numbers counted from the first real
token; a batch whose lines all start at the left edge shares one row of them, ``(n,)``, otherwise ``(b, n)``.
"""

from jaxtyping import Float, Int
from torch import Tensor, nn


class AbsolutePosition(nn.Module):
    """A vector for each position, added to the token embeddings once."""

    def forward(self, positions: Int[Tensor, "*b n"], end: int) -> Float[Tensor, "*b n d"] | None:
        """The vectors of these positions, all of which are below ``end``; None if the scheme adds nothing."""
        raise NotImplementedError


class RelativePosition(nn.Module):
    """What a scheme may do inside attention: each part does nothing unless the scheme overrides it."""

    def rotate(self, heads: Float[Tensor, "b h n d"], positions: Int[Tensor, "*b n"]) -> Float[Tensor, "b h n d"]:
        """Change queries, or keys, by where they stand, before they meet (RoPE). Cached keys stay rotated."""
        del positions
        return heads

    def bias(self, queries: Int[Tensor, "*b n"], keys: Int[Tensor, "*b m"]) -> Float[Tensor, "*c h n m"] | None:
        """A term added to the scores, from positions alone (T5, ALiBi); not scaled."""
        del queries, keys
        return None
