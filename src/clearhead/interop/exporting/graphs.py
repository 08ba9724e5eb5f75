"""The parts of a model as functions of tensors alone, whose graphs other engines run.

Our modules keep keys and values in a cache that they change; a graph takes the old ones in and gives the new ones out.

    seq2seq      encoder: ids, valid → the memory that each layer of the decoder attends to (keys and values)
                 decoder: ids, valid, memory, past → logits, past with the new tokens
    lm           decoder: ids, valid, past → logits, past with the new tokens
    encoder      ids, valid → vectors, and logits if it fills in hidden tokens
    classifier   ids, valid → logits; of an image: pixels → logits

Shapes: b lines, n new tokens, t tokens before them, m source tokens, h heads, d and e features of a key and a value.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from clearhead.attention import Cache, Heads, KeyValues, RecentTokens
from clearhead.blocks import Convolution, ConvolutionLayer, Layer, Memory, Stack
from clearhead.errors import UnsupportedModel
from clearhead.models import ClassifierModel, EncoderModel, LanguageModel, Model, Seq2Seq

Open = tuple[str | None, ...]
"""The names of a tensor's dimensions that stay open; None for fixed ones."""


@dataclass(frozen=True)
class Port:
    """One input or output of a graph.

    Args:
        name: its name.
        open: its dimensions that stay open.
        example: a tensor of its kind, whose open dimensions are at least 2 and all different.
    """

    name: str
    open: Open
    example: Tensor


@dataclass(frozen=True)
class Graph:
    """A function of tensors, and what goes in and out.

    Args:
        name: what the file is called.
        module: the function.
        inputs: what it takes.
        outputs: the names of what it returns.
    """

    name: str
    module: nn.Module
    inputs: tuple[Port, ...]
    outputs: tuple[str, ...]


class GivenKeyValues(KeyValues):
    """Keys and values that were given, and those that are appended: nothing is written in place."""

    def __init__(self, keys: Tensor | None = None, values: Tensor | None = None) -> None:
        super().__init__()
        self._keys, self._values = keys, values
        self.length = 0 if keys is None else 1  # whether there are any; how many is an open number

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        if self._keys is not None and self._values is not None:
            keys, values = torch.cat((self._keys, keys), dim=2), torch.cat((self._values, values), dim=2)
        self._keys, self._values, self.length = keys, values, 1
        return self.view()

    def forget(self, reach: int) -> None:
        """Hold all that was given: how long a graph's state is depends on the text alone."""

    def view(self) -> tuple[Tensor, Tensor]:
        assert self._keys is not None
        assert self._values is not None
        return self._keys, self._values


class GivenCache(Cache):
    """A cache that is told which of all positions are tokens, the new ones among them."""

    whole: Tensor | None = None

    def with_new(self, batch: int, new: int, valid: Tensor | None, device: torch.device) -> Tensor | None:
        del batch, new, valid, device
        return self.whole


class EncoderGraph(nn.Module):
    """ids, valid → keys and values of the source, for the cross-attention of each layer."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, valid: Tensor) -> tuple[Tensor, ...]:
        memory, decoder = self.model.encode(ids, valid), self.model.decoder
        assert isinstance(decoder, Stack)
        context = memory.context(torch.arange(1, device=ids.device), decoder.cross_scheme)
        found: list[Tensor] = []
        for layer in _layers(decoder):
            assert layer.cross is not None
            kept = GivenKeyValues()
            # keys and values do not depend on the query
            query = memory.states.new_zeros(ids.shape[0], 1, self.model.spec.decoder.width)
            layer.cross(query, memory=memory.states, context=context, cache=kept)
            found += kept.view()
        return tuple(found)


class DecoderGraph(nn.Module):
    """ids, [valid, memory …], past … → logits of the token after each one, past with the new tokens."""

    def __init__(self, model: Seq2Seq | LanguageModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, valid: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        decoder, crosses = self.model.decoder, isinstance(self.model, Seq2Seq)
        layers = _layers(decoder)
        memory_parts, past = (state[: 2 * len(layers)], state[2 * len(layers) :]) if crosses else ((), state)
        cache = GivenCache(len(layers), recent=isinstance(layers[0], ConvolutionLayer))
        each = len(past) // len(layers)
        for index, layer in enumerate(cache.layers):
            own = past[each * index : each * (index + 1)]
            if isinstance(layer.own, RecentTokens):
                layer.own._tokens = own[0]
            else:
                layer.own = GivenKeyValues(*own)
            if crosses:
                layer.cross = GivenKeyValues(*memory_parts[2 * index : 2 * index + 2])
        if crosses:
            # only the number of source tokens is asked for: keys and values are there already
            memory, new = Memory(valid.unsqueeze(-1).float(), valid), None
            # a convolution keeps as many tokens as it reaches back to, and asks for no positions
            cache.length = 0 if each == 1 else past[0].shape[2]
        else:
            memory, total = None, valid.shape[1]
            cache.length, cache.whole = total - ids.shape[1], valid
            # gathered, not sliced: torch.export would ask a slice for at least two numbers
            new = valid[:, torch.arange(cache.length, total, device=ids.device)]
        states = decoder(ids, new, memory=memory, cache=cache)
        kept: list[Tensor] = []
        for layer in cache.layers:
            if isinstance(layer.own, RecentTokens):
                assert layer.own._tokens is not None
                kept.append(layer.own._tokens)
            else:
                kept += layer.own.view()
        return self.model.output(states), *kept


class ReaderGraph(nn.Module):
    """ids, valid, [segments] → logits of classes; or vectors, and logits over the vocabulary if there are any."""

    def __init__(self, model: EncoderModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor, *rest: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        result: Tensor = self.model(inputs, *rest)
        if isinstance(self.model, ClassifierModel) or self.model.output is None:
            return result
        return result, self.model.output(result)


def graphs_of(model: Model) -> tuple[Graph, ...]:
    """The graphs of a model; a model without them is refused with the reason."""
    if isinstance(model, Seq2Seq):
        _require_stacks(model.encoder, model.decoder)
        _require_attention(model.decoder)
        return _encoder(model), _decoder(model)
    if isinstance(model, LanguageModel):
        _require_stacks(model.decoder)
        _require_attention(model.decoder)
        return (_decoder(model),)
    if isinstance(model, EncoderModel):
        _require_stacks(model.encoder)
        return (_reader(model),)
    raise UnsupportedModel(f"a model of family {model.spec.family} has no graph to export")


def _require_stacks(*parts: nn.Module) -> None:
    for part in parts:
        if not isinstance(part, Stack):
            raise UnsupportedModel("recurrent encoders and decoders run token by token, and cannot be exported yet")


def _require_attention(decoder: nn.Module) -> None:
    if any(isinstance(layer, ConvolutionLayer) for layer in decoder.modules()):
        raise UnsupportedModel(
            "the steps of a convolutional decoder give other answers as a graph, and cannot be exported yet"
        )


def _layers(decoder: nn.Module) -> list[Layer | ConvolutionLayer]:
    assert isinstance(decoder, Stack)
    return [layer for layer in decoder.layers if isinstance(layer, Layer | ConvolutionLayer)]


def _ids(lines: int, tokens: int) -> Tensor:
    return torch.ones(lines, tokens, dtype=torch.long)


def _encoder(model: Seq2Seq) -> Graph:
    inputs = (
        Port("ids", ("lines", "source"), _ids(2, 5)),
        Port("valid", ("lines", "source"), _right_padded(2, 5)),
    )
    return Graph("encoder", EncoderGraph(model), inputs, tuple(port.name for port in _memory_ports(model)))


def _decoder(model: Seq2Seq | LanguageModel) -> Graph:
    crosses = isinstance(model, Seq2Seq)
    past = _past_ports(model)
    valid = (
        Port("valid", ("lines", "source"), _right_padded(2, 5))
        if crosses
        else Port("valid", ("lines", "total"), torch.ones(2, 7, dtype=torch.bool))
    )
    inputs = (
        Port("ids", ("lines", "new"), _ids(2, 4)),
        valid,
        *(_memory_ports(model) if isinstance(model, Seq2Seq) else ()),
        *past,
    )
    outputs = ("logits", *(port.name.replace("past_", "new_", 1) for port in past))
    return Graph("decoder", DecoderGraph(model), inputs, outputs)


def _reader(model: EncoderModel) -> Graph:
    labels = isinstance(model, ClassifierModel)
    outputs = ("logits",) if labels else ("vectors",) if model.output is None else ("vectors", "logits")
    patches = model.spec.patches
    name = "classifier" if labels else "encoder"
    if patches is not None:
        pixels = torch.zeros(2, patches.height, patches.width, patches.channels)
        return Graph(name, ReaderGraph(model), (Port("pixels", ("lines", None, None, None), pixels),), outputs)
    inputs = [
        Port("ids", ("lines", "source"), _ids(2, 5)),
        Port("valid", ("lines", "source"), _right_padded(2, 5)),
    ]
    if model.spec.embedding.segments:
        inputs.append(Port("segments", ("lines", "source"), torch.zeros(2, 5, dtype=torch.long)))
    return Graph(name, ReaderGraph(model), tuple(inputs), outputs)


def _right_padded(lines: int, tokens: int) -> Tensor:
    valid = torch.ones(lines, tokens, dtype=torch.bool)
    valid[-1, -1] = False
    return valid


def _memory_ports(model: Seq2Seq) -> list[Port]:
    """What the encoder hands to the decoder: shapes are found by running it with two lengths.

    Linformer's keys are slots, as many for every source; those of other attentions follow the source.
    """
    with torch.no_grad():
        found, longer = (EncoderGraph(model)(_ids(2, n), _right_padded(2, n)) for n in (5, 6))
    return [
        Port(
            f"memory_{index // 2}_{'value' if index % 2 else 'key'}",
            ("lines", None, None if tensor.shape == other.shape else "source", None),
            tensor,
        )
        for index, (tensor, other) in enumerate(zip(found, longer, strict=True))
    ]


def _past_ports(model: Seq2Seq | LanguageModel) -> list[Port]:
    ports = []
    for index, layer in enumerate(_layers(model.decoder)):
        if isinstance(layer, ConvolutionLayer):
            convolution = layer.convolution
            assert isinstance(convolution, Convolution)
            example = torch.zeros(2, convolution.before, model.spec.decoder.width)
            ports.append(Port(f"past_{index}_tokens", ("lines", None, None), example))
            continue
        heads = layer.attention
        if not isinstance(heads, Heads):
            kind = type(heads).__name__
            raise UnsupportedModel(f"{kind} keeps something between steps that an exported graph does not know")
        sizes = heads.query_size, _value_size(heads, model.spec.decoder.width)
        for what, size in zip(("key", "value"), sizes, strict=True):
            ports.append(
                Port(f"past_{index}_{what}", ("lines", None, "past", None), torch.zeros(2, heads.kv_heads, 3, size))
            )
    return ports


def _value_size(heads: Heads, width: int) -> int:
    features = heads.value.out_features if isinstance(heads.value, nn.Linear) else width
    return features // heads.kv_heads


@contextmanager
def use_path(model: nn.Module, path: Literal["auto", "fused", "explicit"]) -> Iterator[None]:
    """Make every attention of a model take one path inside a ``with`` block."""
    parts = [part for part in model.modules() if isinstance(part, Heads)]
    before = [part.path for part in parts]
    for part in parts:
        part.path = path
    try:
        yield
    finally:
        for part, old in zip(parts, before, strict=True):
            part.path = old


def open_names(graph: Graph) -> tuple[Any, ...]:
    """The names of the open dimensions, in the structure of the function's arguments."""
    return _structured(
        graph, [{axis: name for axis, name in enumerate(port.open) if name is not None} for port in graph.inputs]
    )


def open_shapes(graph: Graph) -> tuple[Any, ...]:
    """The same for ``torch.export``, which finds by itself which of them are equal."""
    return _structured(
        graph,
        [
            {axis: torch.export.Dim.DYNAMIC for axis, name in enumerate(port.open) if name is not None}
            for port in graph.inputs
        ],
    )


def _structured(graph: Graph, shapes: Sequence[dict[int, Any]]) -> tuple[Any, ...]:
    """Arguments that a function takes as ``*rest`` are one tuple."""
    named = {EncoderGraph: 2, DecoderGraph: 2, ReaderGraph: 1}[type(graph.module)]
    rest = tuple(shapes[named:])
    return (*shapes[:named], rest) if rest else tuple(shapes)  # pixels have nothing beside them
