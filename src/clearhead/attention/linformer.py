"""Linformer (L2.14): keys and values are summed up into k slots, so that attention costs n·k instead of n².

Shapes: b batch, n queries, m keys, h heads, k slots, N the most tokens, q and e features of a key and a value.
"""

from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.attention.cache import KeyValues, remembered
from clearhead.attention.context import AttentionContext
from clearhead.attention.multihead import MultiHeadAttention
from clearhead.attention.paths import attend_heads
from clearhead.errors import TooLong
from clearhead.recipe import LinformerSpec

Sharing = Literal["none", "headwise", "key-value", "layerwise"]


class LengthMap(nn.Module):
    """From N positions to k slots: one map for all heads, or one for each."""

    def __init__(self, *, length: int, rank: int, maps: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(maps, rank, length))
        nn.init.normal_(self.weight, std=rank**-0.5)

    def extra_repr(self) -> str:
        """What the settings are."""
        maps, rank, length = self.weight.shape
        return f"{length} → {rank}" + (f", {maps} times" if maps > 1 else "")

    def forward(self, heads: Float[Tensor, "b h m d"], context: AttentionContext) -> Float[Tensor, "b h k d"]:
        """Σ_j E[s, position of j] x_j for every slot s; padding counts as zero."""
        if context.present is not None:
            heads = heads.masked_fill(~context.present[:, None, :, None], 0.0)
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
    """softmax(Q(EK)ᵀ/√d)(FV), where E and F sum up m positions into k slots (L2.14).

    A slot mixes positions, so no mask can hide the future, and padding must be zero before it is mixed in.

    Arguments:
        rank: slots, k.
        length: the longest sequence, N, for which the sums have weights.
        sharing: who shares the weights of the sums: nobody, all heads, also keys and values, also all layers.
        shared: the map of all layers, if they share one.
        settings: everything that ``MultiHeadAttention`` takes.
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
        """Build from a recipe, with the map that all layers of the stack share, if they do."""
        settings = spec.model_dump(exclude={"kind"})
        return cls(width=width, memory_width=memory_width, dropout=dropout, shared=shared, **settings)

    @staticmethod
    def shared_part(spec: LinformerSpec, *, width: int) -> LengthMap | None:
        """What all layers of a stack share: with ``layerwise`` the one map of all heads, keys and values."""
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
        """Let every token look at the slots that the others, or a memory, are summed up into."""
        context = context or AttentionContext()

        def slots() -> tuple[Tensor, Tensor]:
            seen = tokens if memory is None else memory
            self._check_length(seen.shape[1], context)
            keys, head_values = self.candidates(seen, values)
            return self.shrink_keys(keys, context), self.shrink_values(head_values, context)

        keys, head_values = remembered(cache, slots, fixed=memory is not None)
        # every slot may be looked at
        return self.join(attend_heads(self, self.queries(tokens), keys, head_values, AttentionContext()))

    def _check_length(self, length: int, context: AttentionContext) -> None:
        real = length if context.present is None else int(context.present.sum(1).max())
        if real > self.most_tokens:
            raise TooLong(
                f"{real} tokens are more than this Linformer attention takes, which is {self.most_tokens}: "
                "shorten the sequence, or train with a larger model.attention.length"
            )
