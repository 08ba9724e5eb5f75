"""Attention as four separate things: the score, the choice, the mask and the position term."""

from clearhead.attention.attend import attend, fused, fused_by_distance, weigh
from clearhead.attention.cache import Cache, KeyValues, LayerCache, RecentTokens
from clearhead.attention.choice import choose, use_choice
from clearhead.attention.context import AttentionContext, causal_mask
from clearhead.attention.disentangled import DisentangledAttention, RelativeTable
from clearhead.attention.grid import AxialAttention, GridAttention, WindowAttention, from_tiles, to_tiles
from clearhead.attention.heads import Heads, Weights, for_every_head, split_heads
from clearhead.attention.linformer import LengthMap, LinformerAttention
from clearhead.attention.local import LocalAttention, band
from clearhead.attention.multihead import MultiHeadAttention
from clearhead.attention.score import AdditiveScore, DotScore, MultiplicativeScore, additive, divisor, dot, soft_cap

__all__ = [
    "AdditiveScore",
    "AttentionContext",
    "AxialAttention",
    "Cache",
    "DisentangledAttention",
    "DotScore",
    "GridAttention",
    "Heads",
    "KeyValues",
    "LayerCache",
    "LengthMap",
    "LinformerAttention",
    "LocalAttention",
    "MultiHeadAttention",
    "MultiplicativeScore",
    "RecentTokens",
    "RelativeTable",
    "Weights",
    "WindowAttention",
    "additive",
    "attend",
    "band",
    "causal_mask",
    "choose",
    "divisor",
    "dot",
    "for_every_head",
    "from_tiles",
    "fused",
    "fused_by_distance",
    "soft_cap",
    "split_heads",
    "to_tiles",
    "use_choice",
    "weigh",
]
