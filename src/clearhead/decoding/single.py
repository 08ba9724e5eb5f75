"""The fastest stepper for one line, with one beam or a few: NumPy on buffers that are made once.

A step of a small model is a hundred small products and sums, so what counts is the cost of a call: 3 to 5 µs in torch,
about 1 µs in NumPy with ``out=``. So weights are arranged for few calls (``arranged.py``), and every vector is written
where it is read next. It computes what ``LeanDecoder`` computes, for the models that ``single_decoder`` supports.

Shapes: k beams, h heads, n source tokens, t tokens so far, c tokens of capacity, m = t·k slots, d features, e features
of a head, w features of what a sublayer multiplies last (all heads, or the feed-forward net), V entries of the
vocabulary.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from clearhead.blocks import Embedding, GatedFeedForward, Layer, LayerNorm, Memory, Stack, StandardFeedForward
from clearhead.decoding.arranged import ArrangedLayer, Complex, Norm, Rotation, Sublayer, numbers, sublayers
from clearhead.decoding.lean import LeanDecoder
from clearhead.decoding.products import Floats, product
from clearhead.positions import RelativePosition, RotaryPosition

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
    places = {part.place for layer in stack.layers for part in sublayers(layer)}
    usual = (
        all(scheme is None or _turns_heads(scheme) for scheme in (stack.scheme, stack.cross_scheme))
        and (places == {"post"} or (places == {"pre"} and stack.final_norm is not None))
        and _plain_embedding(stack.embedding)
        and (stack.final_norm is None or _plain_norm(stack.final_norm))
        and all(isinstance(layer, Layer) and _plain_layer(layer) for layer in stack.layers)
        and all(parameter.dtype is torch.float32 for parameter in lean.model.parameters())
    )
    if not usual:
        return None
    decoder = SingleDecoder(lean)
    alike = len({(layer.heads, layer.cross_heads, layer.hidden, layer.gated) for layer in decoder.layers}) == 1
    return decoder if alike else None


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


def _plain_layer(layer: Layer) -> bool:
    around, net = sublayers(layer), layer.feedforward
    return (
        len(around) == 3
        and all(_plain_norm(part.norm) for part in around)
        and isinstance(net, StandardFeedForward | GatedFeedForward)
        and net.activation in (F.relu, F.silu)[: 1 + isinstance(net, GatedFeedForward)]
    )


class SingleDecoder:
    """The weights of a decoder, arranged once for many lines.

    Args:
        lean: the decoder for batches, which computes keys and values of a source.
    """

    def __init__(self, lean: LeanDecoder) -> None:
        stack = lean.model.decoder
        assert isinstance(stack, Stack)
        self.lean = lean
        self.rotation, self.across = Rotation(stack.scheme), Rotation(stack.cross_scheme)
        self.layers: list[ArrangedLayer] = []
        for layer in stack.layers:
            assert isinstance(layer, Layer)
            earlier = self.layers[-1].around[-1].norm if self.layers else None
            self.layers.append(ArrangedLayer(layer, earlier, self.rotation, self.across))
        self.pre = sublayers(stack.layers[0])[0].place == "pre"
        """Whether norms stand before the sublayers."""
        embedding = stack.embedding
        assert isinstance(embedding.tokens, nn.Embedding)
        self.tokens, self.scale = numbers(embedding.tokens.weight), np.float32(embedding.scale)
        self.width = self.tokens.shape[1]
        self.mean: Floats = np.full(self.width, 1.0 / self.width, np.float32)
        self._position, self._places = embedding.position, np.empty((0, 0), np.float32)
        self.placed = embedding.position(torch.arange(1), 1) is not None
        """Whether vectors of positions are added."""
        self.final = None if stack.final_norm is None else Norm(stack.final_norm)

    def places(self, room: int) -> Floats:
        """The vectors of the first ``room`` positions, or of all that there are."""
        end = min(room, getattr(self._position, "most_tokens", None) or room)
        if len(self._places) < end:
            found = self._position(torch.arange(end), end)
            assert found is not None
            self._places = numbers(found).reshape(end, -1)
        return self._places

    def reading(self, source: Int[Tensor, "1 n"]) -> "SingleStepper":
        """Encode a source and return a stepper."""
        return SingleStepper(self, source)


def _heads(rows: Floats, heads: int) -> Floats:
    """The features of so many heads, (h, k, e), where they stand in (k, h·e)."""
    return rows.reshape(len(rows), heads, -1).swapaxes(0, 1)


def _pairs(rows: Floats, heads: int) -> Complex:
    """Neighbouring features of so many heads as complex numbers, (k, h, e/2); empty if their number is odd."""
    even = rows.shape[1] // heads % 2 == 0
    return (rows if even else rows[:, :0]).view(np.complex64).reshape(len(rows), heads, -1)


class _Scores:
    """Room for scores, (h, k, m); torch's softmax is one call, NumPy's would be five."""

    def __init__(self, heads: int, beams: int, length: int) -> None:
        self._scores, self._weights = torch.empty(heads, beams, length), torch.empty(heads, beams, length)
        self.scores: Floats = self._scores.numpy()
        self.weights: Floats = self._weights.numpy()

    def softmax(self) -> None:
        """From ``scores`` to ``weights``."""
        torch.softmax(self._scores, -1, out=self._weights)


class _Room:
    """The vectors of a sublayer in one piece: what it multiplies last, (k, w), a 1, and what it reads, (k, d).

    Args:
        beams: the number of beams, k.
        inner: features of what it multiplies last, w.
        width: features of what it reads, d.
        heads: the number of heads, into which the inner features are cut. Default: 1.
    """

    def __init__(self, beams: int, inner: int, width: int, heads: int = 1) -> None:
        self.all: Floats = np.ones((beams, inner + 1 + width), np.float32)
        self.inner: Floats = self.all[:, :inner]
        self.heads = _heads(self.inner, heads)
        self.pairs = _pairs(self.inner, heads)
        self.given: Floats = self.all[:, : inner + 1]
        """The inner features and the 1."""
        self.seen: Floats = self.all[:, inner:]
        """The 1 and what is read."""
        self.read: Floats = self.all[:, inner + 1 :]


class _Gate:
    """Room for a gate and what it lets through, side by side.

    Args:
        beams: the number of beams.
        width: features of each.
        silu: whether the gate is SiLU's, x/(1 + e^−x), otherwise ReLU's.
    """

    def __init__(self, beams: int, width: int, *, silu: bool) -> None:
        both = torch.empty(beams, 2 * width)
        self._silu, self._gate = silu, both[:, :width]
        self.both: Floats = both.numpy()
        self._open: Floats = self.both[:, :width]
        self._through: Floats = self.both[:, width:]

    def open(self, out: Floats) -> None:
        """act(gate) ⊙ what is let through."""
        if self._silu:
            F.silu(self._gate, inplace=True)
        else:
            np.maximum(self._open, _ZERO, out=self._open)
        np.multiply(self._open, self._through, out=out)


class _Workspace:
    """The vectors of a step, and the ways in which they are looked at; all layers use the same.

    Args:
        decoder: the weights.
        beams: the number of beams, k.
    """

    def __init__(self, decoder: SingleDecoder, beams: int) -> None:
        layer, width = decoder.layers[0], decoder.width
        inner = layer.qkv.shape[1] // 3
        self.times = np.dot if beams == 1 else product
        self.x: Floats = np.empty((beams, width), np.float32)
        self.row: Floats = self.x[0]
        self.y: Floats = np.empty((beams, width), np.float32)
        self.last: Floats = np.empty((beams, width), np.float32)
        self.qkv: Floats = np.empty((beams, 3 * inner), np.float32)
        self.query = _heads(self.qkv[:, :inner], layer.heads)
        self.key_value: Floats = self.qkv.reshape(beams, 3, layer.heads, -1)[:, 1:].transpose(
            1, 2, 0, 3
        )  # (2, h, k, e)
        self.turned = _pairs(self.qkv, 3 * layer.heads)[:, : 2 * layer.heads]
        """The pairs of queries and keys."""
        self.own = _Room(beams, inner, width, layer.heads)
        self.cross = _Room(beams, layer.cross_query.shape[1], width, layer.cross_heads)
        self.net = _Room(beams, layer.hidden, width)
        self.gate = _Gate(beams, layer.hidden, silu=layer.silu) if layer.gated else None
        self.logits: Floats = np.empty((beams, decoder.lean.output.weight.shape[1]), np.float32)


class SingleStepper:
    """The state of one line.

    As in ``LeanStepper``, the beams share all slots, and a mask leaves each one those of its own ancestors.

    Args:
        decoder: the weights.
        source: the source tokens.
    """

    def __init__(self, decoder: SingleDecoder, source: Int[Tensor, "1 n"]) -> None:
        self._decoder = decoder
        memory = decoder.lean.model.encode(source, None)
        if memory.valid is not None:
            padded = not bool(memory.valid.all())  # padding is not attended to
            memory = Memory(memory.states[:, memory.valid[0]] if padded else memory.states, None)
        self._source: list[tuple[Floats, Floats]] = []
        """Keys (h, e, n) and values (h, n, e) of the source, for each layer."""
        for keys, values in decoder.lean.key_values(memory):
            paired = decoder.across.paired(numbers(keys[0]).swapaxes(1, 2)).swapaxes(1, 2)
            self._source.append((paired, numbers(values[0])))
        self._length, self._room, self._beams = 0, 0, 0
        self._own: list[Floats] = []
        """Keys and values of each layer, (2, h, c, k, e)."""
        self._pools: list[Floats] = []
        """The same, over all slots, (2, h, c·k, e)."""
        self._others: Floats = np.empty((0, 0, 0), np.float32)
        """−∞ for slots of other beams' ancestors, (k, c, k)."""
        self._make_room(_ROOM, 1)

    def _make_room(self, room: int, beams: int) -> None:
        """Make room for more tokens or more beams; new beams have no slots at earlier positions."""
        decoder, length, before = self._decoder, self._length, self._beams
        old, self._own = self._own, []
        for number, layer in enumerate(decoder.layers):
            made: Floats = np.zeros((2, layer.heads, room, beams, layer.qkv.shape[1] // 3 // layer.heads), np.float32)
            if old:
                made[:, :, :length, :before] = old[number][:, :, :length]
            self._own.append(made)
        self._pools = [made.reshape(*made.shape[:2], -1, made.shape[4]) for made in self._own]
        others: Floats = np.full((beams, room, beams), -np.inf, np.float32)
        others[np.arange(beams), length:, np.arange(beams)] = 0.0  # from now on, each beam has its own slots
        others[:before, :length, :before] = self._others[:, :length]
        self._others = others
        if beams != before:
            self._space = _Workspace(decoder, beams)
            self._across = _Scores(decoder.layers[0].cross_heads, beams, self._source[0][1].shape[1])
        self._room, self._beams = room, beams
        self._places = decoder.places(room) if decoder.placed else None
        self._phases, self._cross_phases = decoder.rotation.phases(room), decoder.across.phases(room)

    def step(self, ids: Int[Tensor, "1 k"]) -> Float[Tensor, "1 k V"]:
        """Feed a token to every beam."""
        decoder, space = self._decoder, self._space
        if self._length == self._room:
            self._make_room(2 * self._room, self._beams)
        self._length = length = self._length + 1
        own, cross, net, times = space.own, space.cross, space.net, space.times
        self._begin(ids[0].numpy())
        slots = length * self._beams
        among = _Scores(decoder.layers[0].heads, self._beams, slots)
        hidden = self._others[:, :length].reshape(self._beams, slots) if self._beams > 1 else None
        last = decoder.layers[-1]
        everything = zip(decoder.layers, self._own, self._pools, self._source, strict=True)
        for layer, memory, pool, (keys, values) in everything:
            # self-attention
            self._read(layer.around[0], own)
            times(own.seen, layer.qkv, space.qkv)
            if self._phases is not None:
                np.multiply(space.turned, self._phases[length - 1], out=space.turned)
            memory[:, :, length - 1] = space.key_value
            np.matmul(space.query, pool[0, :, :slots].swapaxes(1, 2), out=among.scores)
            if hidden is not None:
                np.add(among.scores, hidden, out=among.scores)
            among.softmax()
            np.matmul(among.weights, pool[1, :, :slots], out=own.heads)
            self._write(layer.around[0], own, cross.read)
            # cross-attention
            self._read(layer.around[1], cross)
            times(cross.seen, layer.cross_query, cross.inner)
            if self._cross_phases is not None:
                np.multiply(cross.pairs, self._cross_phases[length - 1], out=cross.pairs)
            np.matmul(cross.heads, keys, out=self._across.scores)
            self._across.softmax()
            np.matmul(self._across.weights, values, out=cross.heads)
            self._write(layer.around[1], cross, net.read)
            # feed-forward
            self._read(layer.around[2], net)
            if space.gate is None:
                times(net.seen, layer.up, net.inner)
                np.maximum(net.inner, _ZERO, out=net.inner)
            else:
                times(net.seen, layer.up, space.gate.both)
                space.gate.open(net.inner)
            self._write(layer.around[2], net, space.last if layer is last else own.read)
        return torch.from_numpy(decoder.lean.output.rows(self._ended(), space.logits))[None]

    def _begin(self, tokens: NDArray[np.int64]) -> None:
        """The embedding of tokens: where the first sublayer reads it, or without its mean in the sum of residuals."""
        decoder = self._decoder
        x = self._space.x if decoder.pre else self._space.own.read
        np.multiply(decoder.tokens[tokens], decoder.scale, out=x)
        if self._places is not None:
            np.add(x, self._places[self._length - 1], out=x)
        if decoder.pre:
            self._centre(x)

    def _centre(self, x: Floats) -> None:
        np.subtract(x, np.dot(x, self._decoder.mean)[:, None], out=x)

    def _read(self, part: Sublayer, room: _Room) -> None:
        """With norms before the sublayers: normalise what a sublayer reads. Otherwise it is there already."""
        if self._decoder.pre:
            self._normalise(part.norm.eps, room.read)

    def _normalise(self, eps: float, out: Floats) -> None:
        """x/√(mean of x² + ε) of every row x, whose mean is 0."""
        x, row = self._space.x, self._space.row
        if self._beams == 1:
            np.multiply(x, 1.0 / math.sqrt(np.dot(row, row) / len(row) + eps), out=out)
        else:
            squares: Floats = np.vecdot(x, x)
            np.divide(x, np.sqrt(squares / x.shape[1] + np.float32(eps))[:, None], out=out)

    def _write(self, part: Sublayer, room: _Room, after: Floats) -> None:
        """Add what a sublayer gives; with norms after the sublayers, normalise the sum."""
        x, y = self._space.x, self._space.y
        if part.adds:
            self._space.times(room.all, part.write, x)
            self._normalise(part.norm.eps, after)
            return
        self._space.times(room.given, part.write, y)
        if self._decoder.pre:
            np.add(x, y, out=x)
            return
        if part.gain is None:
            np.add(room.read, y, out=x)
        else:
            np.multiply(room.read, part.gain, out=x)
            np.add(x, y, out=x)
        self._centre(x)
        self._normalise(part.norm.eps, after)

    def _ended(self) -> Floats:
        """What the output matrix reads."""
        decoder, last, x = self._decoder, self._space.last, self._space.x
        if not decoder.pre:
            norm = decoder.layers[-1].around[-1].norm
            np.multiply(last, norm.gain, out=last)
            np.add(last, norm.shift, out=last)
            if decoder.final is not None:
                np.copyto(x, last)
                self._centre(x)
        if decoder.final is not None:
            self._normalise(decoder.final.eps, last)
            np.multiply(last, decoder.final.gain, out=last)
            np.add(last, decoder.final.shift, out=last)
        return last

    def keep(self, lines: Int[Tensor, "1"], beams: Int[Tensor, "1 k2"] | None = None) -> None:
        """Continue with the only line and these of its beams, of which there may be more."""
        if len(lines) != 1:
            raise ValueError("this stepper has one line")
        if beams is None or beams.shape[1] == self._beams == 1:
            return
        if beams.shape[1] > self._beams:
            self._make_room(self._room, beams.shape[1])
        self._others[:, : self._length] = self._others[beams[0].numpy(), : self._length]
