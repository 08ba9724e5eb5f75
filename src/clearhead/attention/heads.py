"""The projections around attention: from tokens to the queries, keys and values of every head, and back (L0.7).

Shapes: b batch, n queries, m keys, h heads, d features of a token (the queries'), k and v features of the tokens that
keys and values come from, q = d̃_q and e = d̃_v features inside a head, o = d_o features out.
"""

from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn


class Weights(nn.Module):
    """Passes the attention weights on unchanged: a place for forward hooks to watch them, or to change them."""

    def forward(self, weights: Float[Tensor, "b h n m"]) -> Float[Tensor, "b h n m"]:
        """The weights, as a hook sees them."""
        return weights

    @property
    def watched(self) -> bool:
        """Whether a hook waits for the weights, so that they must be formed."""
        return bool(self._forward_hooks)


class Heads(nn.Module):
    """W_Q, W_K, W_V and W_O, and what every attention with heads has besides.

    Arguments:
        width: features of the tokens that queries come from, d.
        heads: number of heads, h.
        query_size: features of a query and a key in one head, d̃_q; without it width / heads.
        value_size: features of a value in one head, d̃_v; without it width / heads.
        memory_width: features of the tokens that keys come from; without it width.
        value_width: features of the tokens that values come from; without it memory_width.
        out_width: features that come out, d_o; without it width.
        projections: W_Q, W_K and W_V; without them a head gets its slice of the tokens themselves (L4.5).
        output: W_O; without it the concatenation of the heads is the result (L3.1).
        bias: a bias in each projection.
        dropout: how often a weight is dropped while training.
    """

    def __init__(
        self,
        *,
        width: int,
        heads: int,
        query_size: int | None = None,
        value_size: int | None = None,
        memory_width: int | None = None,
        value_width: int | None = None,
        out_width: int | None = None,
        projections: bool = True,
        output: bool = True,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        memory_width = memory_width or width
        value_width = value_width or memory_width
        self.heads = heads
        self.query_size = query_size or width // heads
        value_size = value_size or width // heads
        self.path: Literal["auto", "fused", "explicit"] = "auto"
        """``explicit`` forms the weights even where they need not be formed; ``auto`` does so over few keys."""

        self.query = nn.Linear(width, heads * self.query_size, bias=bias) if projections else nn.Identity()
        self.key = nn.Linear(memory_width, heads * self.query_size, bias=bias) if projections else nn.Identity()
        self.value = nn.Linear(value_width, heads * value_size, bias=bias) if projections else nn.Identity()
        self.output = nn.Linear(heads * value_size, out_width or width, bias=bias) if output else nn.Identity()
        self.weights = Weights()
        self.drop = nn.Dropout(dropout)

    def queries(self, tokens: Float[Tensor, "b n d"]) -> Float[Tensor, "b h n q"]:
        """The query of every token in every head."""
        return self._split(self.query(tokens))

    def candidates(
        self, memory: Float[Tensor, "b m k"], values: Float[Tensor, "b m v"] | None = None
    ) -> tuple[Float[Tensor, "b h m q"], Float[Tensor, "b h m e"]]:
        """Key and value of every token that is looked at; ``values`` if those come from other tokens than the keys."""
        return self._split(self.key(memory)), self._split(self.value(memory if values is None else values))

    def join(self, heads: Float[Tensor, "b h n e"]) -> Float[Tensor, "b n o"]:
        """concat(head_1 … head_h) W_O."""
        joined: Tensor = self.output(heads.transpose(1, 2).flatten(2))
        return joined

    def _split(self, joined: Float[Tensor, "b n hd"]) -> Float[Tensor, "b h n d2"]:
        batch, length, _ = joined.shape
        return joined.view(batch, length, self.heads, -1).transpose(1, 2)
