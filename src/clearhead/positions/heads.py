"""A position scheme for some of the heads that it was made for: what is left when heads are removed.

Shapes: n queries, m keys, h heads that are left.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.positions.base import DistanceBias, RelativePosition


class HeadBias(RelativePosition):
    """The biases of some heads of a scheme that adds a bias to the scores.

    Args:
        whole: the scheme for all heads, whose weights stay shared.
        heads: the heads that are left, counting from 1.
    """

    heads: Int[Tensor, "h"]

    def __init__(self, whole: RelativePosition, heads: Sequence[int]) -> None:
        super().__init__()
        self.whole = whole
        self.register_buffer("heads", torch.tensor(heads) - 1, persistent=False)

    def extra_repr(self) -> str:
        return f"{len(self.heads)} of its heads"

    def bias(self, queries: Int[Tensor, "*b n"], keys: Int[Tensor, "*b m"]) -> Float[Tensor, "*b h n m"] | None:
        bias = self.whole.bias(queries, keys)
        return None if bias is None else bias.index_select(-3, self.heads)


class HeadDistanceBias(DistanceBias):
    """The same where the bias depends on the distance alone.

    Args:
        whole: the scheme for all heads, whose weights stay shared.
        heads: the heads that are left, counting from 1.
    """

    heads: Int[Tensor, "h"]

    def __init__(self, whole: DistanceBias, heads: Sequence[int]) -> None:
        super().__init__()
        self.whole, self.alike_beyond = whole, whole.alike_beyond
        self.register_buffer("heads", torch.tensor(heads) - 1, persistent=False)

    def extra_repr(self) -> str:
        return f"{len(self.heads)} of its heads"

    def of_distance(self, distances: Int[Tensor, "*s"]) -> Float[Tensor, "h *s"]:
        return self.whole.of_distance(distances).index_select(0, self.heads)


def scheme_for_heads(whole: RelativePosition, heads: Sequence[int]) -> HeadBias | HeadDistanceBias:
    """The scheme of a layer that has only these heads, counting from 1."""
    return HeadDistanceBias(whole, heads) if isinstance(whole, DistanceBias) else HeadBias(whole, heads)
