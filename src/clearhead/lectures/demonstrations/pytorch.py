"""torch's own Transformer as an independent reference: it is always installed, and shares no code with ours."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from clearhead.attention import MultiHeadAttention
from clearhead.blocks import AddNorm, Layer, LayerNorm, StandardFeedForward


def randomise(module: nn.Module) -> None:
    """Draw every weight from N(0, 0.3²), gains around 1: with weights of 0, equal outputs would prove nothing."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.normal_(0, 0.3)
            if parameter.dim() == 1 and name.endswith("weight"):
                parameter.add_(1)


def encoder_layer(*, width: int, heads: int, hidden: int, norm_first: bool) -> nn.TransformerEncoderLayer:
    """torch's layer, in training mode without dropout: its shortcut for inference is another code path."""
    layer = nn.TransformerEncoderLayer(width, heads, hidden, dropout=0.0, batch_first=True, norm_first=norm_first)
    randomise(layer)
    return layer


def layer_like(reference: Any, place: Literal["pre", "post"] | str) -> Layer:
    """Our layer with the weights of torch's, for an encoder or a decoder."""
    attention: Any = reference.self_attn
    width, heads = attention.embed_dim, attention.num_heads
    cross = getattr(reference, "multihead_attn", None)
    norms = [reference.norm1, reference.norm2] + ([] if cross is None else [reference.norm3])
    wraps = [AddNorm(norm_like(norm), place=place) for norm in norms]  # type: ignore[arg-type]
    net = StandardFeedForward(width=width, hidden=reference.linear1.out_features)
    _copy(net.up, reference.linear1.weight, reference.linear1.bias)
    _copy(net.down, reference.linear2.weight, reference.linear2.bias)
    return Layer(
        attention=_attention(attention, width, heads),
        around_attention=wraps[0],
        cross=None if cross is None else _attention(cross, width, heads),
        around_cross=None if cross is None else wraps[1],
        feedforward=net,
        around_feedforward=wraps[-1],
    )


def _attention(reference: Any, width: int, heads: int) -> MultiHeadAttention:
    """torch keeps W_Q, W_K and W_V in one matrix."""
    mine = MultiHeadAttention(width=width, heads=heads)
    weights, biases = reference.in_proj_weight.chunk(3), reference.in_proj_bias.chunk(3)
    for part, weight, bias in zip((mine.query, mine.key, mine.value), weights, biases, strict=True):
        _copy(part, weight, bias)
    _copy(mine.output, reference.out_proj.weight, reference.out_proj.bias)
    return mine


def norm_like(reference: nn.LayerNorm) -> LayerNorm:
    """Our layer norm with the weights of torch's."""
    norm = LayerNorm(width=reference.weight.numel(), eps=reference.eps)
    assert norm.gain is not None
    assert norm.shift is not None
    with torch.no_grad():
        norm.gain.copy_(reference.weight)
        norm.shift.copy_(reference.bias)
    return norm


def _copy(module: nn.Module, weight: Tensor, bias: Tensor) -> None:
    with torch.no_grad():
        module.get_parameter("weight").copy_(weight)
        module.get_parameter("bias").copy_(bias)
