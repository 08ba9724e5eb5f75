"""Convolutions along a sequence (Table 1, L4.6), in layers that stand where Transformer layers stand.

Shapes: b batch, n tokens, d features, k tokens of a kernel; m tokens of the memory.
"""

from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from clearhead.attention import AttentionContext, LayerCache, RecentTokens
from clearhead.blocks.feedforward import ACTIVATIONS
from clearhead.blocks.residual import AddNorm
from clearhead.positions import may_branch


class Convolution(nn.Module):
    """y_t = act(Σ_j W_j x_{t + (j − p)δ} + b) over k tokens, δ apart; beyond the ends of a line x is 0.

    The k tokens are put side by side and mapped at once, at k·n·d² multiply-accumulates. A cache keeps the last inputs,
    as many as a kernel reaches back: its size does not grow.

    Args:
        width: features of a token, d.
        kernel: number of tokens, k; odd unless ``causal``.
        dilation: how far apart these tokens are, δ. Default: 1.
        causal: whether the token is the last one of its kernel (p = k − 1); otherwise it is in the middle.
            Default: False.
        activation: ``relu`` (the default), ``gelu``, ``gelu-tanh`` or ``silu``.
        bias: whether there is b. Default: True.
    """

    def __init__(
        self,
        *,
        width: int,
        kernel: int,
        dilation: int = 1,
        causal: bool = False,
        activation: str = "relu",
        bias: bool = True,
    ) -> None:
        super().__init__()
        if not causal and kernel % 2 == 0:
            raise ValueError(f"a kernel with its token in the middle is odd, not {kernel}")
        whole = (kernel - 1) * dilation
        self.kernel, self.dilation, self.causal = kernel, dilation, causal
        self.before, self.after = (whole, 0) if causal else (whole // 2, whole // 2)
        self.map = nn.Linear(kernel * width, width, bias=bias)
        self.activation, self._name = ACTIVATIONS[activation], activation

    def extra_repr(self) -> str:
        apart = f", {self.dilation} apart" if self.dilation > 1 else ""
        return f"{self.kernel} tokens{apart}, {'the last ones' if self.causal else 'both sides'}, {self._name}"

    def forward(
        self,
        tokens: Float[Tensor, "b n d"],
        *,
        context: AttentionContext | None = None,
        cache: RecentTokens | None = None,
    ) -> Float[Tensor, "b n d"]:
        """Convolve along the sequence.

        Args:
            tokens: the tokens.
            context: which of them are padding, which counts as 0; a line is convolved as if it were not there.
            cache: the inputs of earlier steps; needs ``causal``.
        """
        n = tokens.shape[1]
        valid = None if context is None or context.valid is None else context.valid[:, -n:]
        line = tokens if valid is None else tokens.masked_fill(~valid.unsqueeze(-1), 0.0)
        past = 0
        if cache is not None:
            line, past = cache.joined(line, self.before), self.before
        places = None if valid is None else _compact(valid, past)
        if places is not None:
            where = torch.arange(line.shape[1], device=line.device).expand_as(places)
            line = _gather(line, torch.zeros_like(places).scatter(1, places, where))
        if cache is not None:
            cache.keep(line, self.before, n)
        padded = F.pad(line, (0, 0, self.before - past, self.after))
        steps = range(0, self.kernel * self.dilation, self.dilation)
        windows = torch.cat([padded[:, first : first + n] for first in steps], dim=-1)  # (b, n, k·d)
        y: Tensor = self.activation(self.map(windows))
        if places is not None:
            y = _gather(y, (places[:, past:] - past).clamp(min=0))
        return y


def _compact(valid: Bool[Tensor, "b n"], past: int) -> Int[Tensor, "b t"] | None:
    """Where each token goes if padding moves to the front of a line, before ``past`` earlier tokens too.

    None if nothing moves: padding at an end does not matter, as it is 0, unless more tokens follow or came before.
    """
    if may_branch(valid):
        changes = (valid[:, 1:] != valid[:, :-1]).sum(1)
        if not bool((~valid).any() if past else (changes > 1).any()):
            return None
    there = torch.cat((valid.new_ones(valid.shape[0], past), valid), dim=1).long()  # (b, past + n)
    padding = 1 - there
    # counted instead of sorted, which ONNX cannot do stably
    return torch.where(there > 0, padding.sum(1, keepdim=True) + there.cumsum(1), padding.cumsum(1)) - 1


def _gather(x: Float[Tensor, "b t d"], order: Int[Tensor, "b n"]) -> Float[Tensor, "b n d"]:
    return x.gather(1, order.unsqueeze(-1).expand(-1, -1, x.shape[-1]))


class ConvolutionLayer(nn.Module):
    """A convolution and optional cross-attention, each wrapped in Add & Norm.

    Args:
        convolution: the convolution.
        around_convolution: the Add & Norm around it.
        cross: the cross-attention. Default: none.
        around_cross: the Add & Norm around it.
    """

    def __init__(
        self,
        *,
        convolution: Convolution,
        around_convolution: AddNorm,
        cross: nn.Module | None = None,
        around_cross: AddNorm | None = None,
    ) -> None:
        super().__init__()
        self.convolution, self.around_convolution = convolution, around_convolution
        self.cross, self.around_cross = cross, around_cross

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
        """Apply the layer; the arguments are those of ``Layer``."""
        convolve = partial(self.convolution, context=context, cache=cache and cache.own)
        x = self.around_convolution(x, convolve, valid)
        if self.cross is not None and self.around_cross is not None:
            attend = partial(self.cross, memory=memory, context=memory_context, cache=cache and cache.cross)
            x = self.around_cross(x, attend, valid)
        return x
