"""The fastest stepper for one line with one beam: NumPy on buffers that are made once.

A step of a small model is a hundred small products and sums, so what counts is the cost of a call: 3 to 5 µs in torch,
about 1 µs in NumPy with ``out=``. Here a layer is about thirty calls. Biases are one more row of their matrix, as every
vector that is multiplied ends with a 1; with norms before the sublayers, gain and shift are part of the next matrix.
It computes what ``LeanDecoder`` computes, for the models that ``single_decoder`` supports.

Shapes: h heads, n source tokens, t tokens so far, c tokens of capacity, d features, e features of a head, f features
of the feed-forward net, V entries of the vocabulary.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from clearhead.attention import MultiHeadAttention
from clearhead.blocks import AddNorm, Embedding, Layer, LayerNorm, Stack, StandardFeedForward
from clearhead.decoding.lean import LeanDecoder, scale_of

Floats = NDArray[np.float32]
_ROOM = 64
"""Tokens for which there is room at first; this number doubles when it is reached."""


def single_decoder(lean: LeanDecoder) -> "SingleDecoder | None":
    """The decoder for one line, or None if it does not support some part of the model.

    Beside what ``lean_decoder`` asks for: positions that are added to the embeddings, LayerNorm per token, ReLU.
    """
    stack = lean.model.decoder
    assert isinstance(stack, Stack)
    usual = (
        stack.scheme is None
        and _plain_embedding(stack.embedding)
        and (stack.final_norm is None or _plain_norm(stack.final_norm))
        and all(isinstance(layer, Layer) and _plain_layer(layer) for layer in stack.layers)
        and all(parameter.dtype is torch.float32 for parameter in lean.model.parameters())
    )
    return SingleDecoder(lean) if usual else None


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


def _plain_layer(layer: Layer) -> bool:
    around = (layer.around_attention, layer.around_cross, layer.around_feedforward)
    net = layer.feedforward
    return (
        all(part is not None and _plain_norm(part.norm) for part in around)
        and isinstance(net, StandardFeedForward)
        and net.activation is F.relu
    )


class _Norm:
    """LayerNorm of one vector, in place.

    Args:
        norm: the module.
        apart: whether gain and shift are left to the matrix that follows.
    """

    def __init__(self, norm: nn.Module, *, apart: bool) -> None:
        assert isinstance(norm, LayerNorm)
        self.width, self.eps, self.apart = norm.width, norm.eps, apart
        self.mean: Floats = np.full(norm.width, 1.0 / norm.width, np.float32)
        self.gain, self.shift = _numbers(norm.get_parameter("gain")), _numbers(norm.get_parameter("shift"))

    def __call__(self, x: Floats, out: Floats) -> None:
        np.subtract(x, np.dot(x, self.mean), out=out)
        np.multiply(out, 1.0 / math.sqrt(np.dot(out, out) / self.width + self.eps), out=out)
        if not self.apart:
            np.multiply(out, self.gain, out=out)
            np.add(out, self.shift, out=out)


def _numbers(tensor: Tensor) -> Floats:
    found: Floats = tensor.detach().numpy()
    return found


def _matrix(*maps: nn.Module, before: _Norm | None = None, scales: tuple[float, ...] = (1.0, 1.0, 1.0)) -> Floats:
    """Wᵀ with b as its last row, of one linear map or several side by side; (in + 1, out).

    ``before`` is a norm that leaves its gain and shift to this matrix.
    """
    weights, biases = [], []
    for part, scale in zip(maps, scales, strict=False):
        assert isinstance(part, nn.Linear)
        weights.append(_numbers(part.weight).T * np.float32(scale))
        bias = np.zeros(part.out_features, np.float32) if part.bias is None else _numbers(part.bias)
        biases.append(bias * np.float32(scale))
    weight, last = np.concatenate(weights, axis=1), np.concatenate(biases)
    if before is not None:
        last, weight = last + before.shift @ weight, before.gain[:, None] * weight
    return np.ascontiguousarray(np.concatenate((weight, last[None])), np.float32)


class _Sublayer:
    """Add & Norm around a sublayer: the norm before it or after the sum."""

    def __init__(self, around: AddNorm | None) -> None:
        assert around is not None
        self.pre = around.place == "pre"
        self.norm = _Norm(around.norm, apart=self.pre)
        self.before = self.norm if self.pre else None


class _SingleLayer:
    """The weights of one decoder layer."""

    def __init__(self, layer: Layer) -> None:
        own, cross, net = layer.attention, layer.cross, layer.feedforward
        assert isinstance(own, MultiHeadAttention)
        assert isinstance(cross, MultiHeadAttention)
        assert isinstance(net, StandardFeedForward)
        self.around = [
            _Sublayer(part) for part in (layer.around_attention, layer.around_cross, layer.around_feedforward)
        ]
        befores = [part.before for part in self.around]
        self.heads, self.cross_heads = own.heads, cross.heads
        scales = (scale_of(own), 1.0, 1.0)
        self.qkv = _matrix(own.query, own.key, own.value, before=befores[0], scales=scales)
        self.out = _matrix(own.output)
        self.cross_query = _matrix(cross.query, before=befores[1], scales=(scale_of(cross),))
        self.cross_out = _matrix(cross.output)
        self.up, self.down = _matrix(net.up, before=befores[2]), _matrix(net.down)


class SingleDecoder:
    """The weights of a decoder, arranged once for many lines.

    Args:
        lean: the decoder for batches, which computes keys and values of a source.
    """

    def __init__(self, lean: LeanDecoder) -> None:
        stack = lean.model.decoder
        assert isinstance(stack, Stack)
        self.lean = lean
        self.layers = [_SingleLayer(layer) for layer in stack.layers if isinstance(layer, Layer)]
        embedding = stack.embedding
        assert isinstance(embedding.tokens, nn.Embedding)
        self.tokens, self.scale = _numbers(embedding.tokens.weight), np.float32(embedding.scale)
        self._position, self._places = embedding.position, np.empty((0, 0), np.float32)
        self.placed = embedding.position(torch.arange(1), 1) is not None
        """Whether vectors of positions are added."""
        self.final = None if stack.final_norm is None else _Norm(stack.final_norm, apart=False)
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

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        self.keys: Floats = _numbers(keys)  # (h, e, n)
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


class _Vector:
    """A vector that ends with a 1, and its parts."""

    def __init__(self, width: int) -> None:
        self.whole: Floats = np.ones(width + 1, np.float32)
        self.own: Floats = self.whole[:width]


class SingleStepper:
    """The state of one line.

    Args:
        decoder: the weights.
        source: the source tokens.
    """

    def __init__(self, decoder: SingleDecoder, source: Int[Tensor, "1 n"]) -> None:
        self._decoder, layers = decoder, decoder.layers
        memory = decoder.lean.model.encode(source, None)
        states = memory.states
        if memory.valid is not None and not bool(memory.valid.all()):
            states = states[:, memory.valid[0]]  # padding is not attended to
        self._across = [_Across(keys[0], values[0]) for keys, values in decoder.lean.key_values(states)]
        width = decoder.tokens.shape[1]
        self._length, self._room = 0, 0
        self._places: Floats | None = None
        self._own: list[Floats] = []
        # each vector, and the ways in which it is looked at, once
        self._x, self._normed, self._y = _Vector(width), _Vector(width), np.empty(width, np.float32)
        self._hidden = [_Vector(layer.up.shape[1]) for layer in layers]
        self._qkv = [_Parts(layer.qkv.shape[1] // 3, layer.heads) for layer in layers]
        self._query = [_Mixed(layer.cross_query.shape[1], layer.cross_heads) for layer in layers]
        self._logits: Floats = np.empty(decoder.weight.shape[1], np.float32)

    def _make_room(self) -> None:
        """Double the room for keys and values, (2, h, c, e) for each layer, and for position vectors."""
        room = max(_ROOM, 2 * self._room)
        old, self._own = self._own, []
        for number, parts in enumerate(self._qkv):
            made: Floats = np.empty((2, parts.heads, room, parts.size), np.float32)
            if old:
                made[:, :, : self._room] = old[number]
            self._own.append(made)
        self._room = room
        self._places = self._decoder.places(room) if self._decoder.placed else None

    def step(self, ids: Int[Tensor, "1 1"]) -> Float[Tensor, "1 1 V"]:
        """Feed a token."""
        decoder = self._decoder
        if self._length == self._room:
            self._make_room()
        self._length = length = self._length + 1
        x, normed, y = self._x, self._normed, self._y
        np.multiply(decoder.tokens[int(ids.item())], decoder.scale, out=x.own)
        if self._places is not None:
            np.add(x.own, self._places[length - 1], out=x.own)
        scores: dict[int, _Scores] = {}
        for number, layer in enumerate(decoder.layers):
            own, across, ffn = layer.around
            # self-attention
            parts, memory = self._qkv[number], self._own[number]
            np.dot(self._read(own), layer.qkv, out=parts.all)
            memory[:, :, length - 1] = parts.key_value
            room = scores.get(layer.heads)
            if room is None:
                room = scores[layer.heads] = _Scores(layer.heads, length)
            np.matmul(memory[0, :, :length], parts.query, out=room.column)
            room.softmax()
            np.matmul(room.weights, memory[1, :, :length], out=parts.mixed.row)
            np.dot(parts.mixed.whole, layer.out, out=y)
            self._add(own)
            # cross-attention
            query, source = self._query[number], self._across[number]
            np.dot(self._read(across), layer.cross_query, out=query.own)
            np.matmul(query.row, source.keys, out=source.scores.row)
            source.scores.softmax()
            np.matmul(source.scores.weights, source.values, out=query.row)
            np.dot(query.whole, layer.cross_out, out=y)
            self._add(across)
            # feed-forward
            hidden = self._hidden[number]
            np.dot(self._read(ffn), layer.up, out=hidden.own)
            np.maximum(hidden.own, 0.0, out=hidden.own)
            np.dot(hidden.whole, layer.down, out=y)
            self._add(ffn)
        if decoder.final is not None:
            decoder.final(x.own, normed.own)
            x = normed
        np.dot(x.whole, decoder.weight, out=self._logits)
        return torch.from_numpy(self._logits).view(1, 1, -1)

    def _read(self, part: _Sublayer) -> Floats:
        """What a sublayer reads, with its 1 at the end."""
        if not part.pre:
            return self._x.whole
        part.norm(self._x.own, self._normed.own)
        return self._normed.whole

    def _add(self, part: _Sublayer) -> None:
        """Add what a sublayer gave."""
        x = self._x.own
        np.add(x, self._y, out=x)
        if not part.pre:
            part.norm(x, x)

    def keep(self, lines: Int[Tensor, "1"], beams: Int[Tensor, "1 1"] | None = None) -> None:
        """Continue with the only line and its only beam."""
        if len(lines) != 1 or (beams is not None and beams.shape[1] != 1):
            raise ValueError("this stepper has one line with one beam")


class _Mixed(_Vector):
    """A vector of all heads, as a query and as what they mixed: a row for each, (h, 1, e)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__(width)
        self.row: Floats = self.own.reshape(heads, 1, -1)


class _Parts:
    """Query, key and value side by side, and what the heads mixed."""

    def __init__(self, width: int, heads: int) -> None:
        self.heads, self.size = heads, width // heads
        self.all: Floats = np.empty(3 * width, np.float32)
        self.query: Floats = self.all[:width].reshape(heads, -1, 1)
        self.key_value: Floats = self.all[width:].reshape(2, heads, -1)
        self.mixed = _Mixed(width, heads)
