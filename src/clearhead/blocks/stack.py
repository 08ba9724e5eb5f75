"""A stack of layers behind an embedding: the encoder, or the decoder (L1.4, steps 2 and 3).

Shapes: b batch, n tokens, d features, m and k the same of the memory, t tokens so far.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from clearhead.attention import AttentionContext, Cache
from clearhead.blocks.embedding import Embedding
from clearhead.blocks.layer import Layer
from clearhead.positions import RelativePosition, positions_of


@dataclass(frozen=True)
class Memory:
    """What an encoder hands to a decoder."""

    states: Float[Tensor, "b m k"]
    """A vector for every source token."""
    valid: Bool[Tensor, "b m"] | None
    """False for padding; None if there is none."""

    def context(self, queries: Int[Tensor, "*b t"]) -> AttentionContext:
        """What a decoder's tokens, which stand at these positions, see of it."""
        return AttentionContext(valid=self.valid, queries=queries, keys=self._positions)

    @cached_property
    def _positions(self) -> Int[Tensor, "m"] | Int[Tensor, "b m"]:
        return positions_of(self.states.shape[1], self.valid, self.states.device)

    def select(self, rows: Int[Tensor, "r"]) -> "Memory":
        """Keep these rows of the batch, in this order."""
        return Memory(self.states[rows], None if self.valid is None else self.valid[rows])


@runtime_checkable
class DecoderCache(Protocol):
    """What a decoder keeps between steps."""

    length: int
    """Tokens so far."""

    def select(self, rows: Int[Tensor, "r"]) -> None:
        """Keep these rows of the batch, in this order."""


class Decoder(nn.Module):
    """What writes: called as ``decoder(ids, valid, memory=…, cache=…)`` it gives a vector for every token fed in."""

    embedding: Embedding

    def new_cache(self) -> DecoderCache:
        """What it keeps between steps, before the first one."""
        raise NotImplementedError


class Stack(Decoder):
    """Embed tokens and run them through equal layers."""

    def __init__(
        self,
        *,
        embedding: Embedding,
        layers: Iterable[Layer],
        causal: bool,
        scheme: RelativePosition | None = None,
        final_norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.scheme = scheme
        self.layers = nn.ModuleList(layers)
        self.final_norm = final_norm
        self.causal = causal

    def new_cache(self) -> Cache:
        """Keys and values of every layer."""
        return Cache(len(self.layers))

    def extra_repr(self) -> str:
        """Settings, for people."""
        return "causal" if self.causal else "sees everything"

    def forward(
        self,
        inputs: Int[Tensor, "b n"] | Float[Tensor, "b height width channels"],
        valid: Bool[Tensor, "b n"] | None = None,
        *,
        segments: Int[Tensor, "b n"] | None = None,
        memory: Memory | None = None,
        cache: Cache | None = None,
    ) -> Float[Tensor, "b n d"]:
        """The last layer's vectors of token ids, or of an image.

        With a cache, ``inputs`` are the tokens after those that it has seen.
        """
        batch, length = inputs.shape[0], self.embedding.length(inputs)
        all_valid, total = valid, length
        if cache is not None:
            all_valid, total = cache.with_new(batch, length, valid, inputs.device), cache.length + length
        keys = positions_of(total, all_valid, inputs.device)  # (t,) or (b, t)
        queries = keys[..., total - length :]
        # in a causal stack padding at the right edge lies in the future of every real token: nothing to hide
        hidden = self.causal and cache is None and keys.dim() == 1
        context = AttentionContext(
            valid=None if hidden else all_valid,
            causal=self.causal,
            scheme=self.scheme,
            queries=queries,
            keys=keys,
        )
        x: Tensor = self.embedding(inputs, queries, total, segments, valid)
        if cache is not None:  # only now: a sequence that is too long must not leave a cache half extended
            cache.valid, cache.length = all_valid, total
        memory_context = None if memory is None else memory.context(queries)
        for index, layer in enumerate(self.layers):
            x = layer(
                x,
                context,
                valid=valid,
                memory=None if memory is None else memory.states,
                memory_context=memory_context,
                cache=None if cache is None else cache.layers[index],
            )
        return x if self.final_norm is None else self.final_norm(x, valid)
