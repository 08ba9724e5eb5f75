"""The projections of multi-head attention: from tokens to queries, keys and values of every head, and back (L0.7).

Shapes: b batch, n queries, m keys, h heads, g heads of keys and values (h, unless several heads share them), d features
of a token (the queries'), k and v features of the tokens that keys and values come from, q = d̃_q and e = d̃_v features
inside a head, o = d_o features out.
"""

from typing import Literal

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

HeadNorm = Literal["none", "rmsnorm", "layernorm"]


def for_every_head(shared: Float[Tensor, "b g m d"], heads: int) -> Float[Tensor, "b h m d"]:
    """Keys, or values, of g groups for each of h heads: neighbouring heads share them, head i those of ⌊i·g/h⌋."""
    groups = shared.shape[1]
    return shared if groups == heads else shared[:, :, None].expand(-1, -1, heads // groups, -1, -1).flatten(1, 2)


class OffsetRMSNorm(nn.RMSNorm):
    """torch's RMS norm with 1 + weight in place of the weight, which starts at 0 (Gemma)."""

    def reset_parameters(self) -> None:
        """Set the weight to 0: the gain is 1."""
        nn.init.zeros_(self.weight)

    def forward(self, x: Float[Tensor, "... d"]) -> Float[Tensor, "... d"]:
        """Normalise each vector."""
        return F.rms_norm(x, self.normalized_shape, 1.0 + self.weight, self.eps)


def make_head_norm(kind: HeadNorm, size: int, eps: float, *, unit_offset: bool = False) -> nn.Module | None:
    """The norm of a query or a key in its head; None for none."""
    if kind == "none":
        return None
    if kind == "layernorm":
        return nn.LayerNorm(size, eps=eps)
    return (OffsetRMSNorm if unit_offset else nn.RMSNorm)(size, eps=eps)


def split_heads(
    joined: Float[Tensor, "b n hd"], heads: int, norm: nn.Module | None = None
) -> Float[Tensor, "b h n d2"]:
    """Cut vectors into heads, each of which may be normalised."""
    batch, length, _ = joined.shape
    by_head = joined.view(batch, length, heads, -1)
    return (by_head if norm is None else norm(by_head)).transpose(1, 2)


class Weights(nn.Module):
    """The identity, applied to the attention weights: a forward hook here can read or change them."""

    def forward(self, weights: Float[Tensor, "b h n m"]) -> Float[Tensor, "b h n m"]:
        """Return the weights."""
        return weights

    @property
    def watched(self) -> bool:
        """Whether a hook is registered, so that the weights must be formed."""
        return bool(self._forward_hooks)


class Heads(nn.Module):
    """The projections W_Q, W_K, W_V and W_O: the base class of every attention with heads.

    Args:
        width: features of the tokens that queries come from, d.
        heads: number of heads, h.
        query_size: features of a query and of a key in one head, d̃_q. Default: width / heads.
        value_size: features of a value in one head, d̃_v. Default: width / heads.
        memory_width: features of the tokens that keys come from. Default: width.
        value_width: features of the tokens that values come from. Default: memory_width.
        out_width: features of the output, d_o. Default: width.
        projections: whether there are W_Q, W_K and W_V; if not, each head gets its slice of the tokens (L4.5).
            Default: True.
        output: whether there is W_O; if not, the concatenation of the heads is the output (L3.1). Default: True.
        bias: whether the projections have biases. Default: True.
        output_bias: whether W_O has one. Default: as ``bias`` says.
        kv_heads: heads of keys and values, g, which divides h; h/g neighbouring heads share them. Default: h.
        qk_norm: the norm of each query and key in its head: ``none`` (the default), ``rmsnorm`` or ``layernorm``.
        qk_norm_eps: ε of these norms. Default: 1e-6.
        qk_norm_unit_offset: whether those that are ``rmsnorm`` store their gain without 1. Default: False.
        dropout: probability of dropping an attention weight during training. Default: 0.
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
        output_bias: bool | None = None,
        kv_heads: int | None = None,
        qk_norm: HeadNorm = "none",
        qk_norm_eps: float = 1e-6,
        qk_norm_unit_offset: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        memory_width = memory_width or width
        value_width = value_width or memory_width
        self.heads, self.kv_heads = heads, kv_heads or heads
        self.query_size = query_size or width // heads
        value_size = value_size or width // heads
        self.path: Literal["auto", "fused", "explicit"] = "auto"
        """Forces the explicit or the fused path (see ``clearhead.attention.paths``); ``auto`` takes the faster one."""

        self.query = nn.Linear(width, heads * self.query_size, bias=bias) if projections else nn.Identity()
        self.key = nn.Linear(memory_width, self.kv_heads * self.query_size, bias=bias) if projections else nn.Identity()
        self.value = nn.Linear(value_width, self.kv_heads * value_size, bias=bias) if projections else nn.Identity()
        self.query_norm, self.key_norm = (
            make_head_norm(qk_norm, self.query_size, qk_norm_eps, unit_offset=qk_norm_unit_offset) for _ in range(2)
        )
        joined_bias = bias if output_bias is None else output_bias
        self.output = nn.Linear(heads * value_size, out_width or width, bias=joined_bias) if output else nn.Identity()
        self.weights = Weights()
        self.drop = nn.Dropout(dropout)

    def queries(self, tokens: Float[Tensor, "b n d"]) -> Float[Tensor, "b h n q"]:
        """Project tokens to the queries of every head."""
        return split_heads(self.query(tokens), self.heads, self.query_norm)

    def candidates(
        self, memory: Float[Tensor, "b m k"], values: Float[Tensor, "b m v"] | None = None
    ) -> tuple[Float[Tensor, "b g m q"], Float[Tensor, "b g m e"]]:
        """Project tokens to the keys and values of every group; ``values`` if they come from other tokens than keys."""
        keys = split_heads(self.key(memory), self.kv_heads, self.key_norm)
        return keys, split_heads(self.value(memory if values is None else values), self.kv_heads)

    def join(self, heads: Float[Tensor, "b h n e"]) -> Float[Tensor, "b n o"]:
        """concat(head_1 … head_h) W_O."""
        joined: Tensor = self.output(heads.transpose(1, 2).flatten(2))
        return joined

    def over_tokens(
        self, weights: Float[Tensor, "b h n k"], keys: int, valid: Bool[Tensor, "b m"] | None = None
    ) -> Float[Tensor, "b h n m"]:
        """The weights by which the values of all ``keys`` tokens enter each head, from those that ``weights`` saw.

        They are the same, unless an attention mixes tokens before it attends.
        """
        del keys, valid
        return weights

    @property
    def gated(self) -> bool:
        """Whether a hook changes the heads' outputs before W_O, so that W_O must be called as a module."""
        return bool(self.output._forward_pre_hooks)
