"""A fast stepper for standard encoder-decoders on a CPU: one new token per step, with little overhead.

It computes what the model's own modules compute (a test holds the two equal for every model that it supports), but
faster: q, k and v come from one product with weights in the layout that it reads and the scale folded in; sums are made
in place; and the beams of a line are queries over one copy of the source and of their tokens. Other models use
``ModelStepper``.

Shapes: b lines, k beams of a line, r = b·k rows, h heads, n source tokens, t tokens so far, c tokens of capacity, m =
t·k slots, d features, e features of a head, V entries of the vocabulary.
"""

from collections.abc import Callable, Iterator
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from clearhead.attention import MultiHeadAttention
from clearhead.attention.score import divisor
from clearhead.blocks import AddNorm, Embedding, GatedFeedForward, Layer, LayerNorm, Memory, Stack, StandardFeedForward
from clearhead.decoding.products import Linear, linear
from clearhead.models import Seq2Seq
from clearhead.positions import RelativePosition, Turns

Map = Callable[[Tensor], Tensor]


def lean_decoder(model: nn.Module) -> "LeanDecoder | None":
    """Make the fast decoder of a model, or return None if it does not support some part of the model."""
    return LeanDecoder(model) if isinstance(model, Seq2Seq) and _usual(model) else None


def _usual(model: Seq2Seq) -> bool:
    stack = model.decoder
    if not _on_cpu(model) or not isinstance(stack, Stack) or model.output.cap is not None:
        return False
    return _usual_scheme(stack.scheme) and _usual_scheme(stack.cross_scheme) and all(map(_usual_layer, stack.layers))


def _on_cpu(model: nn.Module) -> bool:
    """Whether the weights are on a CPU: this decoder, and the one for a single line, compute with NumPy too."""
    return next(model.parameters()).device.type == "cpu"


def _usual_scheme(scheme: RelativePosition | None) -> bool:
    """Whether a scheme only rotates queries and keys, or adds a bias to the scores."""
    usual = RelativePosition
    return scheme is None or (type(scheme).key_term, type(scheme).value_term) == (usual.key_term, usual.value_term)


def _rotates(scheme: RelativePosition | None) -> bool:
    return scheme is not None and type(scheme).turns is not RelativePosition.turns


def _usual_layer(layer: nn.Module) -> bool:
    if not isinstance(layer, Layer) or layer.around_cross is None or layer.scheme is not None:
        return False
    around = (layer.around_attention, layer.around_cross, layer.around_feedforward)
    adds = all(part.residual and part.project is None and part.after is None for part in around) and not layer.parallel
    return adds and _usual_attention(layer.attention) and _usual_attention(layer.cross)


def _usual_attention(attention: nn.Module | None) -> bool:
    return (
        type(attention) is MultiHeadAttention
        and isinstance(attention.query, nn.Linear)
        and isinstance(attention.output, nn.Linear)
        and attention.query.out_features == attention.output.in_features
        and attention.score.formula == "q·k"
        and attention.choice == "soft"
        and attention.cap is None
        and attention.kv_heads == attention.heads
        and attention.query_norm is None
        and attention.path == "auto"
        and not attention.weights.watched
        and not attention.gated
    )


class LeanDecoder:
    """The weights of a decoder, arranged once for many batches.

    Args:
        model: an encoder-decoder that ``lean_decoder`` supports.
    """

    def __init__(self, model: Seq2Seq) -> None:
        self.model, decoder = model, model.decoder
        assert isinstance(decoder, Stack)
        self._changes = self._count_changes()
        self.embed = _embed(decoder.embedding)
        self.layers = [_LeanLayer(layer) for layer in decoder.layers if isinstance(layer, Layer)]
        self.scheme = decoder.scheme
        self.turning = decoder.scheme if _rotates(decoder.scheme) else None
        """The scheme, if it rotates queries and keys; one that does not returns what it is given."""
        self.cross_turning = decoder.cross_scheme if _rotates(decoder.cross_scheme) else None
        self.final_norm: Map = _identity if decoder.final_norm is None else _norm(decoder.final_norm)
        weight, bias = model.output.weight.detach() * model.output.scale, model.output.bias
        self.output = Linear(weight.T, None if bias is None else bias.detach())

    def current(self) -> bool:
        """Whether the model still has the same weights and is still supported."""
        return self._changes == self._count_changes() and _usual(self.model)

    def _count_changes(self) -> list[tuple[int, int]]:
        # a tensor made in inference mode has no version, and is not meant to change
        return [(part.data_ptr(), 0 if part.is_inference() else part._version) for part in _parameters(self.model)]

    def key_values(self, memory: Memory) -> list[tuple[Tensor, Tensor]]:
        """Keys (b, h, e, n) and values (b, h, n, e) of the source, for each layer."""
        turning = None if self.cross_turning is None else partial(self.cross_turning.rotate, positions=memory.positions)
        return [_key_values(layer, memory.states, turning) for layer in self.layers]

    def reading(self, source: Int[Tensor, "b n"], valid: Bool[Tensor, "b n"] | None = None) -> "LeanStepper":
        """Encode these sources and return a stepper."""
        return LeanStepper(self, source, valid)


def _parameters(module: nn.Module) -> Iterator[Tensor]:
    """All parameters; torch's own way takes as long as decoding a token."""
    for parameter in module._parameters.values():
        if parameter is not None:
            yield parameter
    for part in module._modules.values():
        if part is not None:
            yield from _parameters(part)


class _LeanLayer:
    """The weights of one decoder layer."""

    def __init__(self, layer: Layer) -> None:
        own, cross, around_cross = layer.attention, layer.cross, layer.around_cross
        assert isinstance(own, MultiHeadAttention)
        assert isinstance(cross, MultiHeadAttention)
        assert around_cross is not None
        assert isinstance(own.query, nn.Linear)
        self.heads, self.size, self.cross_heads = own.heads, own.query.out_features // own.heads, cross.heads
        self.qkv = linear(own.query, own.key, own.value, scales=(scale_of(own), 1.0, 1.0))
        self.out = linear(own.output)
        self.cross_query = linear(cross.query, scales=(scale_of(cross),))
        self.cross_key_value = linear(cross.key, cross.value)
        self.cross_out = linear(cross.output)
        self.feedforward = _feedforward(layer.feedforward)
        self.around = [_around(part) for part in (layer.around_attention, around_cross, layer.around_feedforward)]


def _identity(x: Tensor) -> Tensor:
    return x


def scale_of(attention: MultiHeadAttention) -> float:
    """What queries are multiplied by."""
    assert isinstance(attention.query, nn.Linear)
    return 1.0 / divisor(attention.scale, attention.query.out_features // attention.heads)


def _norm(norm: nn.Module) -> Map:
    if isinstance(norm, LayerNorm) and norm.axis == "token" and norm.eps_place == "inside":
        shape, gain, shift, eps = [norm.width], norm.gain, norm.shift, norm.eps
        return lambda x: torch.layer_norm(x, shape, gain, shift, eps)
    return lambda x: norm(x[:, None])[:, 0]


def _around(part: AddNorm) -> tuple[Map, Map]:
    """The parts of Add & Norm before a sublayer and after the sum."""
    norm = _norm(part.norm)
    return (norm, _identity) if part.place == "pre" else (_identity, norm)


def _feedforward(module: nn.Module) -> Map:
    if isinstance(module, StandardFeedForward):
        up, down, activation = linear(module.up), linear(module.down), module.activation
        return lambda x: down(up(x).relu_() if activation is F.relu else activation(up(x)))
    if isinstance(module, GatedFeedForward):
        both, down, activation = linear(module.gate, module.up), linear(module.down), module.activation

        def gated(x: Tensor) -> Tensor:
            gate, through = both(x).chunk(2, dim=-1)
            return down(activation(gate).mul_(through))

        return gated
    return lambda x: module(x[:, None])[:, 0]


def _embed(embedding: Embedding) -> Callable[[Tensor, Tensor, int], Tensor]:
    """(ids (r,), position (1,), length with it) ↦ vectors (r, d)."""
    tokens = embedding.tokens
    plain = embedding.norm is None and embedding.segments is None and embedding.project is None
    if not plain or not isinstance(tokens, nn.Embedding):
        return lambda ids, position, end: embedding(ids[:, None], position, end)[:, 0]
    table, scale, place = tokens.weight.detach(), embedding.scale, embedding.position

    def embed(ids: Tensor, position: Tensor, end: int) -> Tensor:
        x = torch.embedding(table, ids)
        if scale != 1.0:
            x *= scale
        where = place(position, end)
        return x if where is None else x.add_(where)

    return embed


def _turns(scheme: RelativePosition | None, here: Int[Tensor, "1"], x: Tensor) -> Turns | None:
    """What the newest queries and keys are rotated by, the same in all layers."""
    return None if scheme is None else scheme.turns(here, x.dtype)


class LeanStepper:
    """The state of a batch of lines.

    Keys and values stay where they were written: all beams of a line share one buffer of c × k slots, and a mask leaves
    each beam only the slots of its own ancestors. A beam that continues another one copies its mask.

    Args:
        decoder: the weights.
        source: the source tokens.
        valid: True for source tokens, False for padding. Default: no padding.
    """

    def __init__(
        self, decoder: LeanDecoder, source: Int[Tensor, "b n"], valid: Bool[Tensor, "b n"] | None = None
    ) -> None:
        self._decoder = decoder
        memory = decoder.model.encode(source, valid)
        self._length, self._lines, self._beams = 0, len(source), 1
        self._padding: Float[Tensor, "b 1 1 n"] | None = None
        if memory.valid is not None:
            padding = torch.zeros(memory.valid.shape).masked_fill_(~memory.valid, -torch.inf)
            self._padding = padding[:, None, None]
        self._cross = decoder.key_values(memory)
        self._own = [
            memory.states.new_empty(2, self._lines, layer.heads, 16, 1, layer.size) for layer in decoder.layers
        ]
        self._others: Float[Tensor, "b k t k"] | None = None
        """−∞ for slots of other beams' ancestors; None while there is one beam."""
        self._places = torch.arange(16)

    def step(self, ids: Int[Tensor, "b k"]) -> Float[Tensor, "b k V"]:
        """Feed a token to every beam."""
        decoder = self._decoder
        self._length += 1
        self._make_room()
        here = self._places[self._length - 1 : self._length]
        x = decoder.embed(ids.flatten(), here, self._length)  # (r, d)
        bias, turns, across = self._bias(here), _turns(decoder.turning, here, x), _turns(decoder.cross_turning, here, x)
        for number, layer in enumerate(decoder.layers):
            before, after = layer.around[0]
            x = after(self._self_attention(number, layer, before(x), turns, bias).add_(x))
            before, after = layer.around[1]
            x = after(self._cross_attention(number, layer, before(x), across).add_(x))
            before, after = layer.around[2]
            x = after(layer.feedforward(before(x)).add_(x))
        return decoder.output(decoder.final_norm(x)).view(*ids.shape, -1)

    def _make_room(self) -> None:
        """Double the buffers when they are full; let each beam attend to its own newest slot."""
        if self._length > len(self._places):
            self._own = [torch.cat((own, torch.empty_like(own)), dim=3) for own in self._own]
            self._places = torch.arange(2 * len(self._places))
        if self._others is not None:
            newest = torch.full((self._beams, 1, self._beams), -torch.inf)
            newest[self._places[: self._beams], 0, self._places[: self._beams]] = 0.0
            self._others = torch.cat((self._others, newest.expand(self._lines, -1, -1, -1)), dim=2)

    def _bias(self, here: Int[Tensor, "1"]) -> Float[Tensor, "b2 h2 k2 m"] | None:
        """The bias over t·k slots: the scheme's, and −∞ for slots that are masked for a beam."""
        scheme, others = self._decoder.scheme, self._others
        bias = None if scheme is None else scheme.bias(here, self._places[: self._length])  # (h, 1, t)
        if bias is not None:
            bias = bias.repeat_interleave(self._beams, dim=-1)[None]
        if others is None:
            return bias
        hidden = others.flatten(2)[:, None]  # (b, 1, k, t·k)
        return hidden if bias is None else hidden + bias

    def _self_attention(
        self,
        number: int,
        layer: _LeanLayer,
        x: Float[Tensor, "r d"],
        turns: Turns | None,
        bias: Float[Tensor, "b2 h2 k2 m"] | None,
    ) -> Float[Tensor, "r d"]:
        """Self-attention of the newest token over all tokens so far."""
        lines, beams, heads, own = self._lines, self._beams, layer.heads, self._own[number]
        parts = layer.qkv(x).view(lines, beams, 3, heads, layer.size)
        turning = self._decoder.turning
        if turning is not None and turns is not None:
            turned = turning.turn(parts[:, :, :2].reshape(len(x), 2 * heads, 1, -1), turns)  # q and k, of all heads
            parts[:, :, :2] = turned.view(lines, beams, 2, heads, -1)
        own.select(3, self._length - 1).copy_(parts[:, :, 1:].permute(2, 0, 3, 1, 4))
        pool = own.view(2, lines * heads, -1, layer.size).narrow(2, 0, self._length * beams)
        keys, values = pool.unbind(0)  # (b·h, t·k, e)
        query = parts.select(2, 0).transpose(1, 2).reshape(lines * heads, beams, -1)
        scores = torch.bmm(query, keys.transpose(1, 2))  # (b·h, k, t·k)
        if bias is not None:
            scores.view(lines, heads, beams, -1).add_(bias)
        mixed = torch.bmm(scores.softmax(-1), values).view(lines, heads, beams, -1)
        return layer.out(mixed.transpose(1, 2).reshape(len(x), -1))

    def _cross_attention(
        self, number: int, layer: _LeanLayer, x: Float[Tensor, "r d"], turns: Turns | None
    ) -> Float[Tensor, "r d"]:
        """Cross-attention: the beams of a line are queries over one copy of its source."""
        keys, values = self._cross[number]  # (b, h, e, n) and (b, h, n, e)
        lines, heads, size, length = keys.shape
        query = layer.cross_query(x)
        if (turning := self._decoder.cross_turning) is not None and turns is not None:
            query = turning.turn(query.view(len(x), heads, 1, size), turns)
        query = query.view(lines, self._beams, heads, size).transpose(1, 2)
        scores = torch.bmm(query.reshape(lines * heads, -1, size), keys.view(-1, size, length))  # (b·h, k, n)
        if self._padding is not None:
            scores.view(lines, heads, -1, length).add_(self._padding)
        mixed = torch.bmm(scores.softmax(-1), values.view(-1, length, size))  # (b·h, k, e)
        return layer.cross_out(mixed.view(lines, heads, -1, size).transpose(1, 2).reshape(len(x), -1))

    def keep(self, lines: Int[Tensor, "b2"], beams: Int[Tensor, "b2 k2"] | None = None) -> None:
        """Continue with these lines and beams, of which there may be more; reordering beams copies no keys."""
        if len(lines) != self._lines or not torch.equal(lines, torch.arange(len(lines))):
            self._cross = [(keys.index_select(0, lines), values.index_select(0, lines)) for keys, values in self._cross]
            self._own = [own.index_select(1, lines) for own in self._own]
            self._padding = None if self._padding is None else self._padding[lines]
            self._others = None if self._others is None else self._others[lines]
            self._lines = len(lines)
        if beams is None:
            return
        if beams.shape[1] > self._beams:
            self._widen(beams.shape[1])
        if self._others is not None:
            self._others = self._others[torch.arange(self._lines)[:, None], beams]

    def _widen(self, beams: int) -> None:
        """Add slots for more beams; at earlier positions they are empty and masked."""
        more = beams - self._beams
        self._own = [F.pad(own, (0, 0, 0, more)) for own in self._own]
        others = self._others
        if others is None:
            others = torch.zeros(self._lines, self._beams, self._length, self._beams)
        self._others, self._beams = F.pad(others, (0, more), value=-torch.inf), beams


def _key_values(layer: _LeanLayer, states: Float[Tensor, "b n d"], turn: Map | None) -> tuple[Tensor, Tensor]:
    """Keys (b, h, e, n), in the layout for the product with queries, and values (b, h, n, e) of the source."""
    batch, length, _ = states.shape
    both = layer.cross_key_value(states.flatten(0, 1)).view(batch, length, 2, layer.cross_heads, -1)
    keys, values = both.permute(2, 0, 3, 1, 4)  # (b, h, n, e)
    return (keys if turn is None else turn(keys)).transpose(2, 3).contiguous(), values.contiguous()
