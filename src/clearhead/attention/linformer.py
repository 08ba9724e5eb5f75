"""Linformer (L2.14): keys and values are summed up into k slots, so that attention costs n·k instead of n².

Shapes: b batch, n queries, m keys, h heads, k slots, N the most tokens, q and e features of a key and a value.
"""

from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.attention.cache import KeyValues
from clearhead.attention.multihead import MultiHeadAttention
from clearhead.attention.sight import Sight
from clearhead.errors import TooLong
from clearhead.recipe import Linformer

Sharing = Literal["none", "headwise", "key-value", "layerwise"]


class LengthMap(nn.Module):
    """From N positions to k slots: one map for all heads, or one for each."""

    def __init__(self, *, length: int, rank: int, maps: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(maps, rank, length))
        nn.init.normal_(self.weight, std=rank**-0.5)

    def extra_repr(self) -> str:
        """Settings, for people."""
        maps, rank, length = self.weight.shape
        return f"{length} → {rank}" + (f", {maps} times" if maps > 1 else "")

    def forward(self, heads: Float[Tensor, "b h m d"], sight: Sight) -> Float[Tensor, "b h k d"]:
        """Σ_j E[s, position of j] x_j for every slot s; padding counts as zero."""
        if sight.present is not None:
            heads = heads.masked_fill(~sight.present[:, None, :, None], 0.0)
        batch, count, length, size = heads.shape
        if sight.keys is None or sight.keys.dim() == 1:  # token j stands at position j
            weight = self.weight[..., :length]  # (maps, k, m)
        else:
            weight = self.weight[..., sight.keys.clamp(max=self.weight.shape[-1] - 1)]
            weight = weight.permute(2, 0, 1, 3)  # (b, maps, k, m)
        if weight.shape[-3] > 1:
            return weight @ heads
        joined = heads.transpose(1, 2).reshape(batch, length, count * size)  # one large product for all heads
        return (weight.squeeze(-3) @ joined).view(batch, -1, count, size).transpose(1, 2)


class LinformerAttention(MultiHeadAttention):
    """softmax(Q(EK)ᵀ/√d)(FV), where E and F sum up m positions into k slots (L2.14).

    A slot mixes positions, so no mask can hide the future, and padding must be zero before it is mixed in.
    """

    def __init__(
        self,
        *,
        heads: int,
        rank: int = 64,
        length: int = 512,
        sharing: Sharing = "headwise",
        shared: LengthMap | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(heads=heads, **settings)
        self.most_tokens = length
        maps = heads if sharing == "none" else 1
        self.shrink_keys = shared or LengthMap(length=length, rank=rank, maps=maps)
        together = sharing in ("key-value", "layerwise")
        self.shrink_values = self.shrink_keys if together else LengthMap(length=length, rank=rank, maps=maps)

    @staticmethod
    def shared_part(spec: Linformer, *, width: int) -> LengthMap | None:
        """What all layers of a stack share: with ``layerwise`` the one map of all heads, keys and values."""
        del width
        return LengthMap(length=spec.length, rank=spec.rank) if spec.sharing == "layerwise" else None

    def _candidates(
        self, memory: Float[Tensor, "b m k"], values: Float[Tensor, "b m v"] | None, sight: Sight
    ) -> tuple[Float[Tensor, "b h s q"], Float[Tensor, "b h s e"]]:
        real = memory.shape[1] if sight.present is None else int(sight.present.sum(1).max())
        if real > self.most_tokens:
            raise TooLong(
                f"{real} tokens are more than this Linformer attention takes, which is {self.most_tokens}: "
                "shorten the sequence, or train with a larger model.attention.length"
            )
        keys, head_values = super()._candidates(memory, values, sight)
        return self.shrink_keys(keys, sight), self.shrink_values(head_values, sight)

    def _attend(
        self,
        query: Float[Tensor, "b h n q"],
        keys: Float[Tensor, "b h s q"],
        values: Float[Tensor, "b h s e"],
        sight: Sight,
        cache: KeyValues | None = None,
    ) -> Float[Tensor, "b h n e"]:
        del sight, cache  # every slot may be looked at
        return super()._attend(query, keys, values, Sight())
