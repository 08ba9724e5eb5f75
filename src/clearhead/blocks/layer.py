"""One layer of an encoder or decoder: self-attention, optional cross-attention, feed-forward (L1.7).

Shapes: b batch, n tokens, d features in, v features out (d, unless the feed-forward net changes it); m tokens
and k features of the memory.
"""

from functools import partial

from jaxtyping import Bool, Float
from torch import Tensor, nn

from clearhead.attention import AttentionContext, LayerCache
from clearhead.blocks.residual import AddNorm
from clearhead.positions import RelativePosition


class Layer(nn.Module):
    """Self-attention, optional cross-attention and feed-forward, each wrapped in Add & Norm.

    Args:
        attention: the self-attention.
        around_attention: the Add & Norm around it.
        feedforward: the feed-forward network.
        around_feedforward: the Add & Norm around it.
        cross: the cross-attention. Default: none.
        around_cross: the Add & Norm around it.
        scheme: the relative position scheme of this layer. Default: that of the stack.
        parallel: whether the feed-forward network reads what self-attention reads, x + attention(x) + net(x), each with
            its norm inside; without cross-attention. Default: False.
    """

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
        parallel: bool = False,
    ) -> None:
        super().__init__()
        self.scheme, self.parallel = scheme, parallel
        self.attention, self.around_attention = attention, around_attention
        self.cross, self.around_cross = cross, around_cross
        self.feedforward, self.around_feedforward = feedforward, around_feedforward

    def extra_repr(self) -> str:
        return "x + attention + net" if self.parallel else ""

    def forward(
        self,
        x: Float[Tensor, "b n d"],
        context: AttentionContext,
        *,
        valid: Bool[Tensor, "b n"] | None = None,
        memory: Float[Tensor, "b m k"] | None = None,
        memory_context: AttentionContext | None = None,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "b n v"]:
        """Apply the layer.

        Args:
            x: the tokens.
            context: mask and positions for self-attention.
            valid: True for tokens, False for padding.
            memory: the encoder's output, for cross-attention.
            memory_context: mask and positions for cross-attention.
            cache: keys and values of earlier steps.
        """
        if self.scheme is not None:
            context = context.with_scheme(self.scheme)
        attend = partial(self.attention, context=context, cache=cache and cache.own)
        y: Tensor = self.around_attention(x, attend, valid)
        if self.parallel:
            together: Tensor = self.around_feedforward(x, self.feedforward, valid, onto=y)
            return together
        if self.cross is not None and self.around_cross is not None:
            attend = partial(self.cross, memory=memory, context=memory_context, cache=cache and cache.cross)
            y = self.around_cross(y, attend, valid)
        result: Tensor = self.around_feedforward(y, self.feedforward, valid)
        return result
