"""Initial weights."""

import math

from torch import nn

from clearhead.attention import AxialAttention, RelativeTable
from clearhead.blocks import ConvolutionLayer, Layer, NgramEmbedding, Output, Recurrence
from clearhead.positions import AbsolutePosition, RelativePosition
from clearhead.recipe import InitSpec


def initialise(model: nn.Module, init: InitSpec) -> None:
    """Draw the weights of linear maps, recurrent networks and embeddings; norms and scores keep their own.

    Tables of n-grams start at 0.

    With ``residual = depth``, the maps that write into the residual stream are divided by √(number of sublayers), so
    that its variance does not grow with the depth (GPT-2).
    """
    maps = [module for module in model.modules() if isinstance(module, nn.Linear | Output)]
    tables = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    for module in maps:
        if init.kind == "xavier":
            nn.init.xavier_uniform_(module.weight)
        else:
            nn.init.normal_(module.weight, std=init.std)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    for part in model.modules():
        if isinstance(part, Recurrence) and init.kind == "xavier":
            _start_recurrence(part)
    places = [part for part in model.modules() if isinstance(part, AbsolutePosition | RelativePosition | RelativeTable)]
    positions = {id(table) for part in places for table in part.modules()}
    ngrams = {id(part.table) for part in model.modules() if isinstance(part, NgramEmbedding)}
    for table in tables:  # after the maps: an output tied to an embedding starts as the embedding does
        if id(table) in ngrams:  # what has never been seen says nothing, as if its row had been dropped
            nn.init.zeros_(table.weight)
            continue
        small = init.kind == "normal" or id(table) in positions
        nn.init.normal_(table.weight, std=init.std if small else table.embedding_dim**-0.5)
    if init.residual == "depth":
        _shrink_by_depth(model)


def _start_recurrence(layer: Recurrence) -> None:
    """Initialise each gate's maps separately; those of the state are orthogonal, so that it neither grows nor fades.

    The bias of an LSTM's forget gate is 1, so that it starts by keeping its state.
    """
    for first in range(0, len(layer.input.weight), layer.size):
        nn.init.xavier_uniform_(layer.input.weight.data[first : first + layer.size])
        nn.init.orthogonal_(layer.carry.weight.data[first : first + layer.size])
    if layer.cell == "lstm":
        nn.init.ones_(layer.input.bias.data[layer.size : 2 * layer.size])


def _shrink_by_depth(model: nn.Module) -> None:
    for stack in model.modules():
        layers = [layer for layer in getattr(stack, "layers", []) if isinstance(layer, Layer | ConvolutionLayer)]
        sublayers = sum(1 + isinstance(layer, Layer) + (layer.cross is not None) for layer in layers)
        for layer in layers:
            # the output of axial attention along rows goes to its columns, not into the residual stream
            axial = [part for part in layer.modules() if isinstance(part, AxialAttention)]
            inner = {part.rows.output for part in axial}
            for name, module in layer.named_modules():
                writes = name.rpartition(".")[2] in ("output", "down", "map") and module not in inner
                if isinstance(module, nn.Linear) and writes:
                    module.weight.data.div_(math.sqrt(sublayers))
