"""The fastest stepper for one line with one beam: NumPy on buffers that are made once.

A step of a small model is a hundred small products and sums, so what counts is the cost of a call: 3 to 5 µs in torch,
about 1 µs in NumPy with ``out=``. So matrices take over what they can. Biases are a row of their matrix, as every
vector that is multiplied has a 1; gain and shift of a norm are part of the matrices that read what it gives, and of the
bias that is added next. RoPE's pairs of features stand side by side, so that a rotation is one complex product. With
norms before the sublayers nothing depends on the mean of the sum of residuals, so what is added to it has a mean of 0,
and no norm has to take one off.
It computes what ``LeanDecoder`` computes, for the models that ``single_decoder`` supports.

Shapes: h heads, n source tokens, t tokens so far, c tokens of capacity, d features, e features of a head, w features of
what a sublayer multiplies last (all heads, or the feed-forward net), V entries of the vocabulary.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from clearhead.attention import MultiHeadAttention
from clearhead.blocks import AddNorm, Embedding, GatedFeedForward, Layer, LayerNorm, Memory, Stack, StandardFeedForward
from clearhead.decoding.lean import LeanDecoder, scale_of
from clearhead.positions import RelativePosition, RotaryPosition

Floats = NDArray[np.float32]
Complex = NDArray[np.complex64]
_ROOM = 64
"""Tokens for which there is room at first; this number doubles when it is reached."""
_ZERO: Floats = np.zeros((), np.float32)


def single_decoder(lean: LeanDecoder) -> "SingleDecoder | None":
    """The decoder for one line, or None if it does not support some part of the model.

    Beside what ``lean_decoder`` asks for: positions that are added to the embeddings or rotate whole heads, LayerNorm
    per token, a net with ReLU, or a gated one with ReLU or SiLU.
    """
    stack = lean.model.decoder
    assert isinstance(stack, Stack)
    places = {part.place for layer in stack.layers for part in _around(layer)}
    usual = (
        all(scheme is None or _turns_heads(scheme) for scheme in (stack.scheme, stack.cross_scheme))
        and (places == {"post"} or (places == {"pre"} and stack.final_norm is not None))
        and _plain_embedding(stack.embedding)
        and (stack.final_norm is None or _plain_norm(stack.final_norm))
        and all(isinstance(layer, Layer) and _plain_layer(layer) for layer in stack.layers)
        and all(parameter.dtype is torch.float32 for parameter in lean.model.parameters())
    )
    return SingleDecoder(lean) if usual else None


def _turns_heads(scheme: RelativePosition) -> bool:
    return type(scheme) is RotaryPosition and scheme.rotates_all


def _plain_embedding(embedding: Embedding) -> bool:
    return embedding.norm is None and embedding.segments is None and isinstance(embedding.tokens, nn.Embedding)


def _plain_norm(norm: nn.Module | None) -> bool:
    return (
        isinstance(norm, LayerNorm)
        and norm.axis == "token"
        and norm.eps_place == "inside"
        and norm.gain is not None
        and norm.shift is not None
    )


def _around(layer: nn.Module) -> list[AddNorm]:
    """Add & Norm of the three sublayers; fewer if the layer is another one."""
    if not isinstance(layer, Layer):
        return []
    parts = (layer.around_attention, layer.around_cross, layer.around_feedforward)
    return [part for part in parts if part is not None]


def _plain_layer(layer: Layer) -> bool:
    around, net = _around(layer), layer.feedforward
    return (
        len(around) == 3
        and all(_plain_norm(part.norm) for part in around)
        and isinstance(net, StandardFeedForward | GatedFeedForward)
        and net.activation in (F.relu, F.silu)[: 1 + isinstance(net, GatedFeedForward)]
    )


class _Norm:
    """Gain, shift and ε of a LayerNorm.

    Args:
        norm: the module.
    """

    def __init__(self, norm: nn.Module) -> None:
        assert isinstance(norm, LayerNorm)
        self.eps = norm.eps
        self.gain, self.shift = _numbers(norm.get_parameter("gain")), _numbers(norm.get_parameter("shift"))


def _numbers(tensor: Tensor) -> Floats:
    found: Floats = tensor.detach().numpy()
    return found


def _reading(*maps: nn.Module, norm: _Norm | None, scales: tuple[float, ...] = (1.0, 1.0, 1.0)) -> Floats:
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


def _writing(linear: nn.Module, *, centred: bool, shift: Floats | None) -> Floats:
    """Wᵀ, and b + shift below it; each row without its mean if ``centred``; (in + 1, out).

    ``shift`` is that of the norm before, which the residual would add.
    """
    assert isinstance(linear, nn.Linear)
    bias = np.zeros(linear.out_features) if linear.bias is None else linear.bias.detach().double().numpy()
    last = bias if shift is None else bias + shift
    matrix = np.concatenate((linear.weight.detach().double().numpy().T, last[None]))
    if centred:
        matrix = matrix - matrix.mean(axis=1, keepdims=True)
    return np.ascontiguousarray(matrix, np.float32)


class _Rotation:
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


class _Sublayer:
    """Add & Norm around a sublayer, and its last matrix.

    Args:
        around: the norm before it or after the sum.
        earlier: the norm whose output the sublayer reads; None for the embeddings.
        last: its last linear map.
    """

    def __init__(self, around: AddNorm, earlier: _Norm | None, last: nn.Module) -> None:
        self.norm, pre = _Norm(around.norm), around.place == "pre"
        self.read = self.norm if pre else earlier
        """The norm whose gain and shift are left to the matrices that read."""
        self.gain = None if pre or earlier is None else earlier.gain
        """What the residual is still to be multiplied by."""
        self.write = _writing(last, centred=pre, shift=None if pre or earlier is None else earlier.shift)


class _SingleLayer:
    """The weights of one decoder layer.

    Args:
        layer: the module.
        earlier: with norms after the sublayers, the last one before this layer; None for the embeddings.
        rotation: of self-attention.
        across: of cross-attention.
    """

    def __init__(self, layer: Layer, earlier: _Norm | None, rotation: _Rotation, across: _Rotation) -> None:
        own, cross, net = layer.attention, layer.cross, layer.feedforward
        assert isinstance(own, MultiHeadAttention)
        assert isinstance(cross, MultiHeadAttention)
        assert isinstance(net, StandardFeedForward | GatedFeedForward)
        self.around: list[_Sublayer] = []
        for part, last in zip(_around(layer), (own.output, cross.output, net.down), strict=True):
            self.around.append(_Sublayer(part, earlier, last))
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


class SingleDecoder:
    """The weights of a decoder, arranged once for many lines.

    Args:
        lean: the decoder for batches, which computes keys and values of a source.
    """

    def __init__(self, lean: LeanDecoder) -> None:
        stack = lean.model.decoder
        assert isinstance(stack, Stack)
        self.lean = lean
        self.rotation, self.across = _Rotation(stack.scheme), _Rotation(stack.cross_scheme)
        self.layers: list[_SingleLayer] = []
        for layer in stack.layers:
            assert isinstance(layer, Layer)
            earlier = self.layers[-1].around[-1].norm if self.layers else None
            self.layers.append(_SingleLayer(layer, earlier, self.rotation, self.across))
        self.pre = _around(stack.layers[0])[0].place == "pre"
        """Whether norms stand before the sublayers."""
        embedding = stack.embedding
        assert isinstance(embedding.tokens, nn.Embedding)
        self.tokens, self.scale = _numbers(embedding.tokens.weight), np.float32(embedding.scale)
        self.mean: Floats = np.full(self.tokens.shape[1], 1.0 / self.tokens.shape[1], np.float32)
        self._position, self._places = embedding.position, np.empty((0, 0), np.float32)
        self.placed = embedding.position(torch.arange(1), 1) is not None
        """Whether vectors of positions are added."""
        self.final = None if stack.final_norm is None else _Norm(stack.final_norm)
        self.weight = _numbers(lean.output_rows)

    def places(self, room: int) -> Floats:
        """The vectors of the first ``room`` positions, or of all that there are."""
        end = min(room, getattr(self._position, "most_tokens", None) or room)
        if len(self._places) < end:
            found = self._position(torch.arange(end), end)
            assert found is not None
            self._places = _numbers(found).reshape(end, -1)
        return self._places

    def reading(self, source: Int[Tensor, "1 n"]) -> "SingleStepper":
        """Encode a source and return a stepper."""
        return SingleStepper(self, source)


class _Across:
    """Keys and values of the source for one layer, and room for scores."""

    def __init__(self, keys: Tensor, values: Tensor, rotation: _Rotation) -> None:
        self.keys: Floats = rotation.paired(_numbers(keys).swapaxes(1, 2)).swapaxes(1, 2)  # (h, e, n)
        self.values: Floats = _numbers(values)  # (h, n, e)
        self.scores = _Scores(*values.shape[:2])


class _Scores:
    """Room for the scores of some heads over some tokens; torch's softmax is one call, NumPy's would be five."""

    def __init__(self, heads: int, length: int) -> None:
        self._scores, self._weights = torch.empty(heads, length), torch.empty(heads, length)
        scores, weights = self._scores.numpy(), self._weights.numpy()
        self.column: Floats = scores.reshape(heads, length, 1)
        self.row: Floats = scores.reshape(heads, 1, length)
        self.weights: Floats = weights.reshape(heads, 1, length)

    def softmax(self) -> None:
        """From ``column`` or ``row``, which are the same scores, to ``weights``, (h, 1, t)."""
        torch.softmax(self._scores, -1, out=self._weights)


def _pairs(features: Floats, heads: int) -> Complex:
    """Neighbouring features of so many heads as complex numbers, (h, e/2); empty if their number is odd."""
    even = len(features) // heads % 2 == 0
    return (features if even else features[:0]).view(np.complex64).reshape(heads, -1)


class _Room:
    """The vectors of a sublayer in one piece: what it multiplies last, (w,), a 1, and what it reads, (d,).

    Args:
        inner: features of what it multiplies last, w.
        width: features of what it reads, d.
        heads: the number of heads, into which the inner features are cut. Default: 1.
    """

    def __init__(self, inner: int, width: int, heads: int = 1) -> None:
        self.all: Floats = np.ones(inner + 1 + width, np.float32)
        self.inner: Floats = self.all[:inner]
        self.row: Floats = self.inner.reshape(heads, 1, -1)
        self.pairs: Complex = _pairs(self.inner, heads)
        self.given: Floats = self.all[: inner + 1]
        """The inner features and the 1."""
        self.seen: Floats = self.all[inner:]
        """The 1 and what is read."""
        self.read: Floats = self.all[inner + 1 :]


class _Gate:
    """Room for a gate and what it lets through, side by side.

    Args:
        width: features of each.
        silu: whether the gate is SiLU's, x/(1 + e^−x), otherwise ReLU's.
    """

    def __init__(self, width: int, *, silu: bool) -> None:
        both = torch.empty(2 * width)
        self._silu, self._gate = silu, both[:width]
        self.both: Floats = both.numpy()
        self._open: Floats = self.both[:width]
        self._through: Floats = self.both[width:]

    def open(self, out: Floats) -> None:
        """act(gate) ⊙ what is let through."""
        if self._silu:
            F.silu(self._gate, inplace=True)
        else:
            np.maximum(self._open, _ZERO, out=self._open)
        np.multiply(self._open, self._through, out=out)


class SingleStepper:
    """The state of one line.

    Args:
        decoder: the weights.
        source: the source tokens.
    """

    def __init__(self, decoder: SingleDecoder, source: Int[Tensor, "1 n"]) -> None:
        self._decoder, layers = decoder, decoder.layers
        memory = decoder.lean.model.encode(source, None)
        if memory.valid is not None:
            padded = not bool(memory.valid.all())  # padding is not attended to
            memory = Memory(memory.states[:, memory.valid[0]] if padded else memory.states, None)
        self._across = [_Across(keys[0], values[0], decoder.across) for keys, values in decoder.lean.key_values(memory)]
        width = decoder.tokens.shape[1]
        self._length, self._room = 0, 0
        self._places: Floats | None = None
        self._phases: Complex | None = None
        self._cross_phases: Complex | None = None
        self._own: list[Floats] = []
        # each vector, and the ways in which it is looked at, once
        self._x: Floats = np.empty(width, np.float32)
        self._y: Floats = np.empty(width, np.float32)
        self._last: Floats = np.ones(width + 1, np.float32)
        self._qkv = [_Parts(layer.qkv.shape[1] // 3, layer.heads) for layer in layers]
        self._rooms = [
            (
                _Room(layer.qkv.shape[1] // 3, width, layer.heads),
                _Room(layer.cross_query.shape[1], width, layer.cross_heads),
                _Room(layer.hidden, width),
            )
            for layer in layers
        ]
        self._gates = [_Gate(layer.hidden, silu=layer.silu) if layer.gated else None for layer in layers]
        reads = [room.read for rooms in self._rooms for room in rooms]
        followers = [*reads[1:], self._last[:-1]]
        self._next = [followers[3 * number : 3 * number + 3] for number in range(len(layers))]
        """Where the vector after each sublayer is written: where the next one reads it."""
        self._logits: Floats = np.empty(decoder.weight.shape[1], np.float32)

    def _make_room(self) -> None:
        """Double the room for keys and values, (2, h, c, e) for each layer, and for what is known of positions."""
        room = max(_ROOM, 2 * self._room)
        old, self._own = self._own, []
        for number, parts in enumerate(self._qkv):
            made: Floats = np.empty((2, parts.heads, room, parts.size), np.float32)
            if old:
                made[:, :, : self._room] = old[number]
            self._own.append(made)
        self._room = room
        self._places = self._decoder.places(room) if self._decoder.placed else None
        self._phases, self._cross_phases = self._decoder.rotation.phases(room), self._decoder.across.phases(room)

    def step(self, ids: Int[Tensor, "1 1"]) -> Float[Tensor, "1 1 V"]:
        """Feed a token."""
        decoder = self._decoder
        if self._length == self._room:
            self._make_room()
        self._length = length = self._length + 1
        self._begin(int(ids.item()))
        scores: dict[int, _Scores] = {}
        for number, layer in enumerate(decoder.layers):
            own, across, net = layer.around
            room, cross, hidden = self._rooms[number]
            after = self._next[number]
            # self-attention
            parts, memory = self._qkv[number], self._own[number]
            self._read(own, room)
            np.dot(room.seen, layer.qkv, out=parts.all)
            if self._phases is not None:
                np.multiply(parts.pairs, self._phases[length - 1], out=parts.pairs)
            memory[:, :, length - 1] = parts.key_value
            weights = scores.get(layer.heads)
            if weights is None:
                weights = scores[layer.heads] = _Scores(layer.heads, length)
            np.matmul(memory[0, :, :length], parts.query, out=weights.column)
            weights.softmax()
            np.matmul(weights.weights, memory[1, :, :length], out=room.row)
            self._write(own, room, after[0])
            # cross-attention
            source = self._across[number]
            self._read(across, cross)
            np.dot(cross.seen, layer.cross_query, out=cross.inner)
            if self._cross_phases is not None:
                np.multiply(cross.pairs, self._cross_phases[length - 1], out=cross.pairs)
            np.matmul(cross.row, source.keys, out=source.scores.row)
            source.scores.softmax()
            np.matmul(source.scores.weights, source.values, out=cross.row)
            self._write(across, cross, after[1])
            # feed-forward
            self._read(net, hidden)
            gate = self._gates[number]
            np.dot(hidden.seen, layer.up, out=hidden.inner if gate is None else gate.both)
            if gate is None:
                np.maximum(hidden.inner, _ZERO, out=hidden.inner)
            else:
                gate.open(hidden.inner)
            self._write(net, hidden, after[2])
        np.dot(self._ended(), decoder.weight, out=self._logits)
        return torch.from_numpy(self._logits).view(1, 1, -1)

    def _begin(self, token: int) -> None:
        """The embedding of a token: where the first sublayer reads it, or without its mean in the sum of residuals."""
        decoder = self._decoder
        x = self._x if decoder.pre else self._rooms[0][0].read
        np.multiply(decoder.tokens[token], decoder.scale, out=x)
        if self._places is not None:
            np.add(x, self._places[self._length - 1], out=x)
        if decoder.pre:
            np.subtract(x, np.dot(x, decoder.mean), out=x)

    def _read(self, part: _Sublayer, room: _Room) -> None:
        """With norms before the sublayers: normalise what a sublayer reads. Otherwise it is there already."""
        if self._decoder.pre:
            self._normalise(part.norm.eps, room.read)

    def _normalise(self, eps: float, out: Floats) -> None:
        """x/√(mean of x² + ε) of the vector x, whose mean is 0."""
        x = self._x
        np.multiply(x, 1.0 / math.sqrt(np.dot(x, x) / len(x) + eps), out=out)

    def _write(self, part: _Sublayer, room: _Room, after: Floats) -> None:
        """Add what a sublayer gives; with norms after the sublayers, normalise the sum."""
        x, y = self._x, self._y
        if self._decoder.pre:
            np.dot(room.given, part.write, out=y)
            np.add(x, y, out=x)
            return
        np.dot(room.given, part.write, out=y)
        if part.gain is None:
            np.add(room.read, y, out=x)
        else:
            np.multiply(room.read, part.gain, out=x)
            np.add(x, y, out=x)
        np.subtract(x, np.dot(x, self._decoder.mean), out=x)
        self._normalise(part.norm.eps, after)

    def _ended(self) -> Floats:
        """What the output matrix reads, with its 1 at the end."""
        decoder, last = self._decoder, self._last[:-1]
        if not decoder.pre:
            norm = decoder.layers[-1].around[-1].norm
            np.multiply(last, norm.gain, out=last)
            np.add(last, norm.shift, out=last)
            if decoder.final is not None:
                np.subtract(last, np.dot(last, decoder.mean), out=self._x)
        if decoder.final is not None:
            self._normalise(decoder.final.eps, last)
            np.multiply(last, decoder.final.gain, out=last)
            np.add(last, decoder.final.shift, out=last)
        return self._last

    def keep(self, lines: Int[Tensor, "1"], beams: Int[Tensor, "1 1"] | None = None) -> None:
        """Continue with the only line and its only beam."""
        if len(lines) != 1 or (beams is not None and beams.shape[1] != 1):
            raise ValueError("this stepper has one line with one beam")


class _Parts:
    """Query, key and value side by side."""

    def __init__(self, width: int, heads: int) -> None:
        self.heads, self.size = heads, width // heads
        self.all: Floats = np.empty(3 * width, np.float32)
        self.query: Floats = self.all[:width].reshape(heads, -1, 1)
        self.key_value: Floats = self.all[width:].reshape(2, heads, -1)
        self.pairs: Complex = _pairs(self.all[: 2 * width], 2 * heads)
        """Of query and key."""
