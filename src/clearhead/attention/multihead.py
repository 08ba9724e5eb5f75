"""Multi-head attention with free sizes (L0.7).

Shapes: b batch, n queries, m keys, h heads, d features of a token (the queries'), k and v features of the tokens that
keys and values come from, q = d̃_q and e = d̃_v features inside a head, o = d_o features out.
"""

from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.attention.attend import fused, fused_by_distance, weigh
from clearhead.attention.blockwise import attend_by_distance
from clearhead.attention.cache import KeyValues
from clearhead.attention.choice import Choice
from clearhead.attention.score import Scale, ScoreName, divisor, make_score
from clearhead.attention.sight import Sight
from clearhead.recipe import MultiHead

FEW_KEYS = 32
"""Up to so many, training forms the weights, which is then the faster way forward and back on a CPU."""
MANY_KEYS = 1024
"""Beyond so many, what depends on distances is added a block of queries at a time, which is then the faster way."""


class Weights(nn.Module):
    """Passes the attention weights on unchanged: a place for forward hooks to watch them, or to change them."""

    def forward(self, weights: Float[Tensor, "b h n m"]) -> Float[Tensor, "b h n m"]:
        """The weights, as a hook sees them."""
        return weights

    @property
    def watched(self) -> bool:
        """Whether a hook waits for the weights, so that they must be formed."""
        return bool(self._forward_hooks)


class MultiHeadAttention(nn.Module):
    """concat(head_1 … head_h) W_O with head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V) (L0.7, L1.6).

    Tokens are rows, so q = xW_Qᵀ here is q = W_Q x of the column convention (L2.4). Each head is scaled by its own
    size, √d̃_q (L1.5). Without ``projections`` a head attends with its slice of the
    tokens themselves (L4.5); without ``output`` the concatenation is the result (L3.1).
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
        score: ScoreName = "dot",
        scale: Scale = "sqrt",
        choice: Choice = "soft",
        projections: bool = True,
        output: bool = True,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if choice not in ("soft", "hard"):
            raise ValueError(f"no choice {choice!r} (there are: soft, hard)")
        memory_width = memory_width or width
        value_width = value_width or memory_width
        query_size = query_size or width // heads
        value_size = value_size or width // heads
        self.heads, self.scale, self.choice = heads, scale, choice
        self.path: Literal["auto", "fused", "explicit"] = "auto"
        """``explicit`` forms the weights even where the fused kernel applies; ``auto`` does so over few keys."""

        self.query = nn.Linear(width, heads * query_size, bias=bias) if projections else nn.Identity()
        self.key = nn.Linear(memory_width, heads * query_size, bias=bias) if projections else nn.Identity()
        self.value = nn.Linear(value_width, heads * value_size, bias=bias) if projections else nn.Identity()
        self.output = nn.Linear(heads * value_size, out_width or width, bias=bias) if output else nn.Identity()
        self.score = make_score(score, heads=heads, size=query_size)
        self.weights = Weights()
        self.drop = nn.Dropout(dropout)

    @classmethod
    def from_spec(
        cls, spec: MultiHead, *, width: int, memory_width: int, dropout: float, **shared: Any
    ) -> "MultiHeadAttention":
        """Build from a recipe, with what all layers of a stack share, if anything."""
        settings = spec.model_dump(exclude={"kind"})
        return cls(width=width, memory_width=memory_width, dropout=dropout, **settings, **shared)

    def extra_repr(self) -> str:
        """Settings, for people."""
        return f"{self.heads} heads, {self.choice}, {self.score.shown(self.scale)}"

    def forward(
        self,
        tokens: Float[Tensor, "b n d"],
        memory: Float[Tensor, "b m k"] | None = None,
        values: Float[Tensor, "b m v"] | None = None,
        *,
        sight: Sight | None = None,
        cache: KeyValues | None = None,
    ) -> Float[Tensor, "b n o"]:
        """Let every token look at the others, or at a memory.

        ``values`` gives the memory's values if they are not its keys. With a cache, self-attention adds its tokens
        to it, and attention over a memory projects the memory only once.
        """
        sight = sight or Sight()
        query = self._split(self.query(tokens))  # (b, h, n, q)
        if sight.scheme is not None and sight.queries is not None:
            query = sight.scheme.rotate(query, sight.queries)

        if cache is not None and memory is not None and cache.length:
            head_keys, head_values = cache.view()
        else:
            head_keys, head_values = self._candidates(tokens if memory is None else memory, values, sight)
            if cache is not None:
                head_keys, head_values = cache.append(head_keys, head_values)

        heads = self._attend(query, head_keys, head_values, sight, cache)  # (b, h, n, e)
        mixed: Tensor = self.output(heads.transpose(1, 2).flatten(2))  # (b, n, o)
        return mixed

    def _candidates(
        self, memory: Float[Tensor, "b m k"], values: Float[Tensor, "b m v"] | None, sight: Sight
    ) -> tuple[Float[Tensor, "b h m q"], Float[Tensor, "b h m e"]]:
        """Keys and values of the tokens that are looked at; keys are turned to where they stand."""
        keys = self._split(self.key(memory))
        if sight.scheme is not None and sight.keys is not None:
            # with a cache only the new tokens are projected: the last ones of all keys
            keys = sight.scheme.rotate(keys, sight.keys[..., -memory.shape[1] :])
        return keys, self._split(self.value(memory if values is None else values))

    def _attend(
        self,
        query: Float[Tensor, "b h n q"],
        keys: Float[Tensor, "b h m q"],
        values: Float[Tensor, "b h m e"],
        sight: Sight,
        cache: KeyValues | None = None,
    ) -> Float[Tensor, "b h n e"]:
        del cache  # for kinds that keep more than keys and values
        n, m = query.shape[2], keys.shape[2]
        query = self.score.fold(query)
        # a bias of distances alone need not be spread over all pairs, unless it is learnt or lines have padding
        shared = n > 1 and sight.present is None and not sight.learns_positions
        if shared and self._fusable(m) and (by_distance := sight.bias_of_distance) is not None:
            dropout = self.drop.p if self.training else 0.0
            return fused_by_distance(query, keys, values, by_distance, scale=self.scale, dropout=dropout)
        if self._works_in_blocks(n, m) and (found := sight.in_blocks) is not None:
            tables, distances, offset = found
            root = divisor(self.scale, query.shape[-1])
            return attend_by_distance(
                query,
                keys,
                values,
                key_table=tables.keys,
                value_table=tables.values,
                bias=None if tables.bias is None else tables.bias * root,
                distances=distances,
                scale=root,
                offset=offset,
                causal=sight.causal,
                present=sight.present,
            )
        bias = sight.bias
        if (term := sight.key_term(query)) is not None:
            term = term / divisor(self.scale, query.shape[-1])
            bias = term if bias is None else bias + term
        if self._fusable(m) and not sight.weighs_positions:
            simple = sight.causal and n == m and sight.present is None and bias is None
            return fused(
                query,
                keys,
                values,
                scale=self.scale,
                mask=None if simple else sight.mask(n, m, query.device),
                bias=bias,
                causal=simple,
                dropout=self.drop.p if self.training else 0.0,
            )
        weights = weigh(
            query,
            keys,
            score=self.score,
            scale=self.scale if self.score.products else "none",
            choice=self.choice,
            mask=sight.mask(n, m, query.device),
            bias=bias,
        )
        weights = self.drop(self.weights(weights))
        heads: Tensor = weights @ values
        places = sight.value_term(weights)
        return heads if places is None else heads + places

    def _fusable(self, keys: int) -> bool:
        """Whether the weights need not be formed: nobody looks at them, and the kernel knows this mathematics."""
        if self.path == "explicit" or self.weights.watched or not self.score.products or self.choice != "soft":
            return False
        # over a few keys the weights are smaller than the queries, and the kernel's backward pass is the slower one
        return self.path == "fused" or keys > FEW_KEYS or not torch.is_grad_enabled()

    def _works_in_blocks(self, queries: int, keys: int) -> bool:
        """Whether distances act on a block of queries at a time: the kernel would spread them over all pairs."""
        if queries == 1 or not self._fusable(keys) or (self.training and self.drop.p):
            return False
        return self.path == "fused" or keys > MANY_KEYS

    def _split(self, joined: Float[Tensor, "b n hd"]) -> Float[Tensor, "b h n d2"]:
        batch, length, _ = joined.shape
        return joined.view(batch, length, self.heads, -1).transpose(1, 2)
