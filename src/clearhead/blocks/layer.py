"""One layer of an encoder or decoder: self-attention, perhaps cross-attention, feed-forward (L1.7).

Shapes: b batch, n tokens, d features, m and k the same of the memory.
"""

from functools import partial

from jaxtyping import Bool, Float
from torch import Tensor, nn

from clearhead.attention import AttentionContext, LayerCache
from clearhead.blocks.residual import AddNorm
from clearhead.positions import RelativePosition


class Layer(nn.Module):
    """Parts are handed in ready-made, each with the Add & Norm around it; ``scheme`` if its positions are its own."""

    def __init__(
        self,
        *,
        attention: nn.Module,
        around_attention: AddNorm,
        feedforward: nn.Module,
        around_feedforward: AddNorm,
        cross: nn.Module | None = None,
        around_cross: AddNorm | None = None,
        scheme: RelativePosition | None = None,
    ) -> None:
        super().__init__()
        self.scheme = scheme
        self.attention, self.around_attention = attention, around_attention
        self.cross, self.around_cross = cross, around_cross
        self.feedforward, self.around_feedforward = feedforward, around_feedforward

    def forward(
        self,
        x: Float[Tensor, "b n d"],
        context: AttentionContext,
        *,
        valid: Bool[Tensor, "b n"] | None = None,
        memory: Float[Tensor, "b m k"] | None = None,
        memory_context: AttentionContext | None = None,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "b n d"]:
        """Look at each other, look at the memory, think about it."""
        if self.scheme is not None:
            context = context.with_scheme(self.scheme)
        look = partial(self.attention, context=context, cache=cache and cache.own)
        x = self.around_attention(x, look, valid)
        if self.cross is not None and self.around_cross is not None:
            look = partial(self.cross, memory=memory, context=memory_context, cache=cache and cache.cross)
            x = self.around_cross(x, look, valid)
        result: Tensor = self.around_feedforward(x, self.feedforward, valid)
        return result
