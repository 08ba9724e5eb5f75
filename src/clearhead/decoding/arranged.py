"""The weights of a decoder layer, arranged for few calls: what matrices can take over, they do.

Biases are a row of their matrix, as every vector that is multiplied has a 1; gain and shift of a norm are part of the
matrices that read what it gives, and of the bias that is added next. With norms before the sublayers nothing depends on
the mean of the sum of residuals, so what is added to it has a mean of 0, and no norm has to take one off. With norms
after them, the last matrix of a narrow sublayer adds the residual as well, and gives a sum whose mean is 0. RoPE's
pairs of features stand side by side, so that a rotation is one complex product.

Shapes: h heads, d features, e features of a head, w features of what a sublayer multiplies last (all heads, or the
feed-forward net).
"""

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from clearhead.attention import MultiHeadAttention
from clearhead.blocks import AddNorm, GatedFeedForward, Layer, LayerNorm, StandardFeedForward
from clearhead.decoding.lean import scale_of
from clearhead.decoding.products import Floats
from clearhead.positions import RelativePosition, RotaryPosition

Complex = NDArray[np.complex64]
_NARROW = 256
"""Most features for which the residual is part of the product; it was compared with the calls it saves at 128 only."""


def sublayers(layer: nn.Module) -> list[AddNorm]:
    """Add & Norm of the three sublayers; fewer if the layer is another one."""
    if not isinstance(layer, Layer):
        return []
    parts = (layer.around_attention, layer.around_cross, layer.around_feedforward)
    return [part for part in parts if part is not None]


class Norm:
    """Gain, shift and ε of a LayerNorm.

    Args:
        norm: the module.
    """

    def __init__(self, norm: nn.Module) -> None:
        assert isinstance(norm, LayerNorm)
        self.eps = norm.eps
        self.gain, self.shift = numbers(norm.get_parameter("gain")), numbers(norm.get_parameter("shift"))


def numbers(tensor: Tensor) -> Floats:
    """A tensor's own memory."""
    found: Floats = tensor.detach().numpy()
    return found


def _reading(*maps: nn.Module, norm: Norm | None, scales: tuple[float, ...] = (1.0, 1.0, 1.0)) -> Floats:
    """b, then Wᵀ below it, of one linear map or several side by side, after gain and shift of a norm; (1 + in, out)."""
    columns = []
    for part, scale in zip(maps, scales, strict=False):
        assert isinstance(part, nn.Linear)
        weight = part.weight.detach().double().numpy().T * scale
        bias = np.zeros(part.out_features) if part.bias is None else part.bias.detach().double().numpy() * scale
        if norm is not None:
            bias, weight = bias + norm.shift @ weight, norm.gain[:, None] * weight
        columns.append(np.concatenate((bias[None], weight)))
    return np.ascontiguousarray(np.concatenate(columns, axis=1), np.float32)


def _writing(linear: nn.Module, *, centred: bool, shift: Floats | None, gain: Floats | None = None) -> Floats:
    """Wᵀ, and b + shift below it, and with a gain its diagonal; rows without their mean if ``centred``; (in + 1, out).

    Gain and shift are those of the norm before, which the residual would be multiplied by and add.
    """
    assert isinstance(linear, nn.Linear)
    bias = np.zeros(linear.out_features) if linear.bias is None else linear.bias.detach().double().numpy()
    last = bias if shift is None else bias + shift
    parts = [linear.weight.detach().double().numpy().T, last[None]]
    matrix = np.concatenate(parts if gain is None else [*parts, np.diag(gain)])
    if centred:
        matrix = matrix - matrix.mean(axis=1, keepdims=True)
    return np.ascontiguousarray(matrix, np.float32)


class Rotation:
    """RoPE by complex products: the features of a pair are real and imaginary part of a number.

    Args:
        scheme: the scheme; None rotates nothing.
    """

    def __init__(self, scheme: RelativePosition | None) -> None:
        assert scheme is None or isinstance(scheme, RotaryPosition)
        self.scheme = scheme
        self._phases: Complex = np.empty((0, 0), np.complex64)

    def paired(self, heads: Floats) -> Floats:
        """What has the features of a head in its last dimension, with the two of each pair side by side."""
        if self.scheme is None or self.scheme.layout == "interleaved":
            return heads
        size = heads.shape[-1]
        return heads[..., np.arange(size).reshape(2, -1).T.ravel()]

    def phases(self, room: int) -> Complex | None:
        """What the pairs of a head are multiplied by at each of the first ``room`` positions, (room, e/2)."""
        if self.scheme is None:
            return None
        if len(self._phases) < room:
            angles = torch.arange(room).unsqueeze(-1) * self.scheme.frequencies()
            turned = torch.complex(angles.cos(), angles.sin()) * self.scheme.magnitude
            self._phases = turned.numpy()
        return self._phases


class Sublayer:
    """Add & Norm around a sublayer, and its last matrix.

    Args:
        around: the norm before it or after the sum.
        earlier: the norm whose output the sublayer reads; None for the embeddings.
        last: its last linear map.
    """

    def __init__(self, around: AddNorm, earlier: Norm | None, last: nn.Module) -> None:
        self.norm, pre = Norm(around.norm), around.place == "pre"
        self.read = self.norm if pre else earlier
        """The norm whose gain and shift are left to the matrices that read."""
        self.gain = None if pre or earlier is None else earlier.gain
        """What the residual is still to be multiplied by."""
        shift = None if pre or earlier is None else earlier.shift
        self.adds = not pre and len(self.norm.gain) <= _NARROW
        """Whether the last matrix adds the residual as well."""
        gain = np.ones_like(self.norm.gain) if self.gain is None else self.gain
        self.write = _writing(last, centred=pre or self.adds, shift=shift, gain=gain if self.adds else None)


class ArrangedLayer:
    """The weights of one decoder layer.

    Args:
        layer: the module.
        earlier: with norms after the sublayers, the last one before this layer; None for the embeddings.
        rotation: of self-attention.
        across: of cross-attention.
    """

    def __init__(self, layer: Layer, earlier: Norm | None, rotation: Rotation, across: Rotation) -> None:
        own, cross, net = layer.attention, layer.cross, layer.feedforward
        assert isinstance(own, MultiHeadAttention)
        assert isinstance(cross, MultiHeadAttention)
        assert isinstance(net, StandardFeedForward | GatedFeedForward)
        self.around: list[Sublayer] = []
        for part, last in zip(sublayers(layer), (own.output, cross.output, net.down), strict=True):
            self.around.append(Sublayer(part, earlier, last))
            earlier = self.around[-1].norm
        norms = [part.read for part in self.around]
        self.heads, self.cross_heads = own.heads, cross.heads
        self.qkv = _reading(own.query, own.key, own.value, norm=norms[0], scales=(scale_of(own), 1.0, 1.0))
        parts = self.qkv.reshape(len(self.qkv), 3, own.heads, -1)
        parts[:, :2] = rotation.paired(parts[:, :2])
        query = _reading(cross.query, norm=norms[1], scales=(scale_of(cross),))
        self.cross_query = across.paired(query.reshape(len(query), cross.heads, -1)).reshape(len(query), -1)
        self.gated, self.silu = isinstance(net, GatedFeedForward), net.activation is F.silu
        self.hidden = net.down.in_features
        self.up = _reading(*([net.gate] if isinstance(net, GatedFeedForward) else []), net.up, norm=norms[2])
        """What the gate reads, if there is one, and beside it the hidden features."""
