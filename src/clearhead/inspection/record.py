"""What a model computed while it was watched: attention, sublayers and residual streams, by stack, layer and head.

Shapes: b lines, n queries, m keys, h heads, e features of a value in one head, d features of a token, o features out;
B = b·t lines of tiles where attention works inside tiles, of s cells each.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from clearhead.attention import AttentionContext, Heads, from_tiles, to_tiles
from clearhead.blocks import AddNorm, Embedding, StateAttention

StackName = Literal["encoder", "decoder", "cross"]


@dataclass(frozen=True)
class Tiles:
    """A grid that is cut into tiles, inside which cells attend to each other."""

    grid: tuple[int, int]
    size: tuple[int, int]

    def joined(self, tiles: Float[Tensor, "B s *f"]) -> Float[Tensor, "b n *f"]:
        """What belongs to cells, put back onto the grid."""
        return from_tiles(tiles, self.grid, self.size)

    def spread(self, tiles: Float[Tensor, "B h s s"]) -> Float[Tensor, "b h n n"]:
        """What belongs to pairs of cells of a tile, put back onto the grid; 0 for cells of different tiles."""
        cells = self.grid[0] * self.grid[1]
        where = to_tiles(torch.arange(cells, device=tiles.device).view(1, -1), self.grid, self.size)  # (t, s)
        count, heads = len(where), tiles.shape[1]
        whole = tiles.new_zeros(len(tiles) // count, heads, cells, cells)
        pairs = tiles.view(-1, count, *tiles.shape[1:]).transpose(1, 2)  # (b, h, t, s, s)
        whole[:, :, where[:, :, None], where[:, None, :]] = pairs
        return whole


@dataclass(frozen=True)
class AttentionRecord:
    """One attention with heads, or the single alignment of a recurrent decoder.

    Where attention works in tiles, ``chosen``, ``values`` and ``joined`` are those inside the tiles.
    """

    part: Heads | StateAttention
    """The module that holds the projections."""
    chosen: Float[Tensor, "B h n k"]
    """The weights as the softmax gave them: over tokens, or over the slots of a Linformer."""
    values: Float[Tensor, "B h m e"]
    """The value of every token, 0 in a head that is switched off."""
    joined: Float[Tensor, "B n he"]
    """The outputs of all heads, before W_O."""
    out: Float[Tensor, "B n o"]
    """concat(head_1 … head_h) W_O + b_O."""
    context: AttentionContext
    """Mask and positions."""
    tiles: Tiles | None = None

    @property
    def heads(self) -> int:
        """The number of heads, h."""
        return self.chosen.shape[1]

    @property
    def inside(self) -> Float[Tensor, "B h n m"]:
        """The weights over tokens, inside the tiles."""
        if isinstance(self.part, StateAttention):
            return self.chosen
        return self.part.over_tokens(self.chosen, self.values.shape[2], self.context.valid).detach()

    @property
    def weights(self) -> Float[Tensor, "b h n m"]:
        """The weight of every key for every query."""
        return self.inside if self.tiles is None else self.tiles.spread(self.inside)

    @property
    def output_weight(self) -> Float[Tensor, "h e o"] | None:
        """W_O by heads; None if heads are only concatenated, or for an alignment."""
        output = getattr(self.part, "output", None)
        if not isinstance(output, nn.Linear):
            return None
        return output.weight.detach().T.reshape(self.heads, -1, output.out_features)

    @property
    def output_bias(self) -> Float[Tensor, "o"] | None:
        """b_O, if there is one."""
        output = getattr(self.part, "output", None)
        return output.bias.detach() if isinstance(output, nn.Linear) and output.bias is not None else None


@dataclass(frozen=True)
class SublayerRecord:
    """One sublayer with the Add & Norm around it."""

    name: str
    """``attention``, ``cross``, ``feedforward``, or what another kind of layer calls it."""
    module: nn.Module
    around: AddNorm
    x: Float[Tensor, "b n d"]
    """What came in, the residual stream before."""
    change: Float[Tensor, "b n d"]
    """What the sublayer put out."""
    y: Float[Tensor, "b n d"]
    """The residual stream after."""
    attentions: tuple[AttentionRecord, ...] = ()
    """The attentions inside, in the order in which they run: usually one; rows and columns for axial attention; none
    if nothing about its heads is known."""


@dataclass(frozen=True)
class LayerRecord:
    """One layer of a stack."""

    sublayers: tuple[SublayerRecord, ...]

    @property
    def y(self) -> Float[Tensor, "b n d"]:
        """The residual stream after the layer."""
        return self.sublayers[-1].y

    def named(self, name: str) -> SublayerRecord | None:
        """The sublayer of this name."""
        return next((sublayer for sublayer in self.sublayers if sublayer.name == name), None)


@dataclass(frozen=True)
class EmbeddingRecord:
    """The embedding of a stack, and what it was given."""

    module: Embedding
    inputs: Tensor
    positions: Int[Tensor, "..."]
    end: int
    segments: Int[Tensor, "b n"] | None
    valid: Bool[Tensor, "b n"] | None
    y: Float[Tensor, "b n d"]
    """The residual stream before the first layer."""


@dataclass(frozen=True)
class StackRecord:
    """A Transformer's encoder or decoder."""

    module: nn.Module
    embedding: EmbeddingRecord
    layers: tuple[LayerRecord, ...]
    y: Float[Tensor, "b n d"]
    """What the stack returned: the last layer's vectors, after the final norm if there is one."""

    @property
    def streams(self) -> list[Float[Tensor, "b n d"]]:
        """The residual stream after the embedding and after every layer."""
        return [self.embedding.y, *(layer.y for layer in self.layers)]


@dataclass(frozen=True)
class Record:
    """Everything that was recorded in one forward pass over b lines."""

    logits: Float[Tensor, "b n V"] | Float[Tensor, "b c"]
    """Of the token after each input, of the token at each place, or of the classes; before a softmax. An encoder
    without a head gives its vectors instead."""
    stacks: Mapping[str, StackRecord]
    """``encoder`` and ``decoder``, those that are Transformers."""
    alignment: AttentionRecord | None = None
    """The attention of a recurrent decoder over the source."""
    inputs: Mapping[str, Tensor] = field(default_factory=dict)
    """What went in: ``source`` (ids or pixels), ``target`` (the decoder's inputs), ``valid`` (of the source)."""
    off: tuple[str, ...] = ()
    """Heads that were switched off."""

    def attentions(self) -> Iterator[tuple[StackName, int, tuple[AttentionRecord, ...]]]:
        """Every attention with its stack and layer, in the order of the names of heads."""
        places: tuple[tuple[StackName, str, str], ...] = (
            ("encoder", "encoder", "attention"),
            ("decoder", "decoder", "attention"),
            ("cross", "decoder", "cross"),
        )
        for name, stack, sublayer in places:
            for number, layer in enumerate(self.stacks[stack].layers if stack in self.stacks else (), start=1):
                found = layer.named(sublayer)
                if found is not None and found.attentions:
                    yield name, number, found.attentions
        if self.alignment is not None:
            yield "cross", 1, (self.alignment,)
