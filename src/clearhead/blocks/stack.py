"""A stack of layers after an embedding: the encoder or the decoder (L1.4, steps 2 and 3).

Shapes: b batch, n tokens, d features; m tokens and k features of the memory; t tokens so far.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from clearhead.attention import AttentionContext, Cache
from clearhead.attention.context import Shared
from clearhead.attention.once import once
from clearhead.blocks.convolution import ConvolutionLayer
from clearhead.blocks.embedding import Embedding
from clearhead.blocks.layer import Layer
from clearhead.positions import RelativePosition, last_positions, positions_of


@dataclass(frozen=True)
class Memory:
    """The encoder's output, which the decoder attends to.

    Args:
        states: a vector for every source token.
        valid: True for tokens, False for padding; None without padding.
    """

    states: Float[Tensor, "b m k"]
    valid: Bool[Tensor, "b m"] | None

    def context(self, queries: Int[Tensor, "*b t"], scheme: RelativePosition | None = None) -> AttentionContext:
        """The context for cross-attention by queries at these positions."""
        return AttentionContext(valid=self.valid, scheme=scheme, queries=queries, keys=self.positions)

    @once
    def positions(self) -> Int[Tensor, "m"] | Int[Tensor, "b m"]:
        """The positions of the source tokens."""
        return positions_of(self.states.shape[1], self.valid, self.states.device)

    def select(self, rows: Int[Tensor, "r"]) -> "Memory":
        """Keep these rows of the batch, in this order."""
        return Memory(self.states[rows], None if self.valid is None else self.valid[rows])


@runtime_checkable
class DecoderCache(Protocol):
    """The state of a decoder between steps."""

    length: int
    """Tokens so far."""

    def select(self, rows: Int[Tensor, "r"]) -> None:
        """Keep these rows of the batch, in this order."""


class Decoder(nn.Module):
    """The base class of decoders: ``decoder(ids, valid, memory=…, cache=…)`` returns a vector for every input token."""

    embedding: Embedding

    def new_cache(self) -> DecoderCache:
        """An empty cache."""
        raise NotImplementedError


class Stack(Decoder):
    """Embeds tokens and runs them through equal layers: an encoder, or with ``causal`` a decoder.

    Args:
        embedding: the embedding.
        layers: the layers.
        causal: whether later tokens are masked.
        scheme: the relative position scheme that all layers share. Default: none.
        cross_scheme: that of cross-attention, between the tokens here and those of the memory. Default: none.
        final_norm: the norm after the last layer. Default: none.
    """

    def __init__(
        self,
        *,
        embedding: Embedding,
        layers: Iterable[Layer | ConvolutionLayer],
        causal: bool,
        scheme: RelativePosition | None = None,
        cross_scheme: RelativePosition | None = None,
        final_norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.scheme, self.cross_scheme = scheme, cross_scheme
        self.layers = nn.ModuleList(layers)
        self.final_norm = final_norm
        self.causal = causal
        self.recompute = False
        """Whether the backward pass computes each layer again, instead of keeping what it needs (``training``)."""

    def new_cache(self) -> Cache:
        recent = all(isinstance(layer, ConvolutionLayer) for layer in self.layers)
        return Cache(len(self.layers), recent=recent)

    def extra_repr(self) -> str:
        return "causal" if self.causal else "sees everything"

    def forward(
        self,
        inputs: Int[Tensor, "b n"] | Float[Tensor, "b height width channels"],
        valid: Bool[Tensor, "b n"] | None = None,
        *,
        segments: Int[Tensor, "b n"] | None = None,
        memory: Memory | None = None,
        cache: Cache | None = None,
    ) -> Float[Tensor, "b n v"]:
        """Return the last layer's vectors.

        Args:
            inputs: token ids, or the pixels of images. With a cache, the tokens that follow those in it.
            valid: True for tokens, False for padding. Default: no padding.
            segments: the segment of each token (BERT's token types). Default: the first one.
            memory: the encoder's output, for cross-attention.
            cache: keys and values of earlier steps; the new ones are appended.
        """
        batch, length = inputs.shape[0], self.embedding.length(inputs)
        all_valid, total = valid, length
        if cache is not None:
            all_valid, total = cache.with_new(batch, length, valid, inputs.device), cache.length + length
        keys = positions_of(total, all_valid, inputs.device)  # (t,) or (b, t)
        queries = keys if cache is None else last_positions(keys, length)
        # in a causal stack, padding on the right is later than every token and so masked already
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
        memory_context = None if memory is None else memory.context(queries, self.cross_scheme)
        again = self.recompute and torch.is_grad_enabled() and cache is None
        for index, layer in enumerate(self.layers):
            x = (_computed_again(layer) if again else layer)(
                x,
                context,
                valid=valid,
                memory=None if memory is None else memory.states,
                memory_context=memory_context,
                cache=None if cache is None else cache.layers[index],
            )
        return x if self.final_norm is None else self.final_norm(x, valid)


def _computed_again(layer: nn.Module) -> Callable[..., Any]:
    """The layer, of which only the input is kept: the backward pass computes it again, with the same dropout.

    Both times it gets contexts of its own, as what one computes for all layers would not be computed the second time.
    """

    def afresh(
        x: Tensor,
        memory: Tensor | None,
        context: AttentionContext,
        *,
        memory_context: AttentionContext | None,
        **others: Any,
    ) -> Tensor:
        seen = None if memory_context is None else replace(memory_context, shared=Shared())
        y: Tensor = layer(x, replace(context, shared=Shared()), memory=memory, memory_context=seen, **others)
        return y

    def again(x: Tensor, context: AttentionContext, *, memory: Tensor | None, **others: Any) -> Tensor:
        # both tensors by position: those torch keeps as autograd does, where memory is counted
        y: Tensor = checkpoint(afresh, x, memory, context, use_reentrant=False, **others)
        return y

    return again
