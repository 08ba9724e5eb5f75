"""Linformer (L2.14): keys and values are projected to k slots, so that attention costs n·k instead of n².

Shapes: b batch, n queries, m keys, h heads, k slots, N the longest sequence, q and e features of a key and of a value.
"""

from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from clearhead.attention.cache import KeyValues, remembered
from clearhead.attention.context import AttentionContext
from clearhead.attention.multihead import MultiHeadAttention
from clearhead.attention.paths import attend_heads
from clearhead.errors import TooLong
from clearhead.positions import is_exporting, may_branch
from clearhead.recipe import LinformerSpec

Sharing = Literal["none", "headwise", "key-value", "layerwise"]


class LengthMap(nn.Module):
    """A linear map from N positions to k slots.

    Args:
        length: the longest sequence, N.
        rank: the number of slots, k.
        maps: 1 for one map shared by all heads (the default), or the number of heads. The weight is (maps, k, N).
    """

    def __init__(self, *, length: int, rank: int, maps: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(maps, rank, length))
        nn.init.normal_(self.weight, std=rank**-0.5)

    def extra_repr(self) -> str:
        maps, rank, length = self.weight.shape
        return f"{length} → {rank}" + (f", {maps} times" if maps > 1 else "")

    def forward(self, heads: Float[Tensor, "b h m d"], context: AttentionContext) -> Float[Tensor, "b h k d"]:
        """Σ_j E[s, position of j] x_j for every slot s; padding counts as zero."""
        if context.valid is not None:
            heads = heads.masked_fill(~context.valid[:, None, :, None], 0.0)
        batch, count, length, size = heads.shape
        if context.keys is None or context.keys.dim() == 1:  # token j stands at position j
            weight = self.weight[..., :length]  # (maps, k, m)
        else:
            weight = self.weight[..., context.keys.clamp(max=self.weight.shape[-1] - 1)]
            weight = weight.permute(2, 0, 1, 3)  # (b, maps, k, m)
        if weight.shape[-3] > 1:
            return weight @ heads
        joined = heads.transpose(1, 2).reshape(batch, length, count * size)  # one large product for all heads
        return (weight.squeeze(-3) @ joined).view(batch, -1, count, size).transpose(1, 2)


class LinformerAttention(MultiHeadAttention):
    """softmax(Q(EK)ᵀ/√d)(FV), where E and F map m positions to k slots (L2.14).

    Slots mix positions, so the attention cannot be causal, and padding is set to zero before it is mixed in.

    Args:
        rank: the number of slots, k. Default 64.
        length: the longest sequence, N. Default 512.
        sharing: what shares a map: ``none``, ``headwise`` (all heads, the default), ``key-value`` (also E = F),
            ``layerwise`` (also all layers).
        shared: the map that all layers share, with ``layerwise``.
        settings: the arguments of ``MultiHeadAttention``.
    """

    def __init__(
        self,
        *,
        rank: int = 64,
        length: int = 512,
        sharing: Sharing = "headwise",
        shared: LengthMap | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.most_tokens = length
        maps = self.heads if sharing == "none" else 1
        self.shrink_keys = shared or LengthMap(length=length, rank=rank, maps=maps)
        together = sharing in ("key-value", "layerwise")
        self.shrink_values = self.shrink_keys if together else LengthMap(length=length, rank=rank, maps=maps)

    @classmethod
    def from_spec(  # type: ignore[override]
        cls, spec: LinformerSpec, *, width: int, memory_width: int, dropout: float, shared: LengthMap | None = None
    ) -> "LinformerAttention":
        """Build from a recipe; ``shared`` is what ``shared_part`` returned for the stack."""
        settings = spec.model_dump(exclude={"kind", "kept"})
        return cls(width=width, memory_width=memory_width, dropout=dropout, shared=shared, **settings)

    @staticmethod
    def shared_part(spec: LinformerSpec, *, width: int) -> LengthMap | None:
        """Make the map that all layers of a stack share, with ``layerwise``."""
        del width
        return LengthMap(length=spec.length, rank=spec.rank) if spec.sharing == "layerwise" else None

    def forward(
        self,
        tokens: Float[Tensor, "b n d"],
        memory: Float[Tensor, "b m k"] | None = None,
        values: Float[Tensor, "b m v"] | None = None,
        *,
        context: AttentionContext | None = None,
        cache: KeyValues | None = None,
    ) -> Float[Tensor, "b n o"]:
        """Compute self-attention or cross-attention over ``memory``; arguments as in ``MultiHeadAttention.forward``."""
        context = context or AttentionContext()

        def slots() -> tuple[Tensor, Tensor]:
            seen = tokens if memory is None else memory
            self._check_length(seen.shape[1], context)
            keys, head_values = self.candidates(seen, values)
            return self.shrink_keys(keys, context), self.shrink_values(head_values, context)

        keys, head_values = remembered(cache, slots, fixed=memory is not None)
        # no slot is masked
        return self.join(attend_heads(self, self.queries(tokens), keys, head_values, AttentionContext()))

    def over_tokens(
        self, weights: Float[Tensor, "b h n k"], keys: int, valid: Bool[Tensor, "b m"] | None = None
    ) -> Float[Tensor, "b h n m"]:
        """αF: the weights over slots, spread over the tokens in them; rows need not sum to 1."""
        spread = weights @ self.shrink_values.weight[..., :keys]  # padding is on the right, so token j is at position j
        return spread if valid is None else spread.masked_fill(~valid[:, None, None], 0.0)

    def _check_length(self, length: int, context: AttentionContext) -> None:
        if is_exporting():  # the graph fails at the product with a map that is too short
            return
        real = length
        if context.valid is not None and may_branch(context.valid):  # elsewhere padding counts as tokens
            real = int(context.valid.sum(1).max())
        if real > self.most_tokens:
            raise TooLong(
                f"{real} tokens are more than the {self.most_tokens} that this Linformer attention takes: "
                "shorten the sequence, or train with a larger model.attention.length"
            )
