"""Specs of attention: what kinds there are, their settings, and what each of them can do."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from clearhead.recipe.position import PositionSpec
from clearhead.recipe.registry import register
from clearhead.recipe.spec import KindSpec

Count = Annotated[int, Field(ge=1, le=1_000_000)]
Term = Literal["c2c", "c2p", "p2c"]
Kept = Annotated[
    list[Annotated[list[Count], Field(min_length=1, max_length=10_000)]], Field(min_length=1, max_length=10_000)
]
"""For each layer the heads that it keeps, counting from 1."""


@dataclass(frozen=True)
class AttentionPlace:
    """Where an attention stands in a model: all that its spec may use to refuse a combination."""

    part: Literal["encoder", "decoder", "cross"]
    width: int
    """Features of a query token, d."""
    memory_width: int
    """Features of a token that is attended to; differs from ``width`` only in cross-attention."""
    causal: bool
    """A token may look only at itself and at what came before."""
    position: PositionSpec | None
    """The position scheme that acts inside this attention, if one does."""
    grid: tuple[int, int] | None = None
    """Rows and columns of the patches that an image is cut into; None for text."""
    class_token: bool = False
    """One more token stands before the grid."""
    layers: int = 1
    """How many layers have such an attention."""


class AttentionSpec(KindSpec):
    """The base of every attention; a new kind derives from it and is made known with ``register``."""

    slot: ClassVar[str] = "attention"
    causal: ClassVar[bool] = True
    """Can be masked so that no token sees the future."""
    cached: ClassVar[bool] = True
    """Can decode step by step from stored keys and values."""
    relative: ClassVar[bool] = False
    """Lets a relative position scheme act on its queries, keys and scores."""
    planar: ClassVar[bool] = False
    """Attends along the rows and columns of a grid; its module is then given the grid."""
    shared_by: ClassVar[tuple[str, ...]] = ("encoder", "decoder", "cross")
    """Parts that ``model.attention.kind`` means; the others take it only by their own name, as
    ``model.cross.attention.kind``. The paper of the mechanism decides."""
    brings_position: ClassVar[bool] = False
    """Knows the positions of its tokens itself: `position.kind` is then none, unless the recipe names one."""

    kind: str
    """Which attention: see `clearhead presets --kinds`."""
    heads: Count = 4
    """Number of heads, h."""

    def sizes(self, width: int) -> tuple[int, int]:
        """(d̃_q, d̃_v), the features of a query and of a value in one head, for tokens of this width."""
        return width // self.heads, width // self.heads

    def kept_in(self, layer: int) -> list[int] | None:
        """The heads that a layer keeps, both counting from 1; None if it keeps all of them."""
        del layer
        return None

    @property
    def same_in_all_layers(self) -> bool:
        """Whether ``in_layer`` is the same for every layer."""
        return True

    def sees_window(self, layer: int) -> bool:
        """Whether a token of this layer, from 1, sees a window around it alone."""
        del layer
        return False

    def in_layer(self, layer: int, width: int) -> "AttentionSpec":
        """The attention of one layer, from 1: with the heads that it keeps, whose sizes are as if all were there."""
        kept = self.kept_in(layer)
        if kept is None:
            return self
        query_size, value_size = self.sizes(width)
        changes = {"heads": len(kept), "query_size": query_size, "value_size": value_size, "kept": None}
        return self.model_copy(update=changes)

    def refusals(self, place: AttentionPlace) -> Iterator[tuple[str, str]]:
        """Yield (setting, reason) for everything that cannot work in this place."""
        if self.planar and place.grid is None:
            yield "kind", f"{self.kind} attention needs a grid: give [model.patches] to an encoder or a classifier"
            return
        if self.planar and place.class_token:
            yield (
                "kind",
                f"a class token has no place in the grid of {self.kind} attention: use multihead, or no class token",
            )
        if type(self).sizes is AttentionSpec.sizes and place.width % self.heads:
            yield "heads", f"heads ({self.heads}) must divide the width ({place.width})"
        if place.causal and not self.causal:
            yield "kind", f"{self.kind} attention mixes positions and would see the future in a {place.part}"
        if place.part != "encoder" and not self.cached:
            yield "kind", f"{self.kind} attention cannot decode step by step"
        if place.position is not None and not self.relative:
            yield "kind", f"{self.kind} attention does not know {place.position.kind} positions"


class FreeHeadsSpec(AttentionSpec):
    """The base of attentions whose heads have free sizes (L0.7), so that some of them can be removed."""

    query_size: Count | None = None
    """Features of a query and a key in one head, d̃_q; without it width / heads."""
    value_size: Count | None = None
    """Features of a value in one head, d̃_v; without it width / heads."""
    kept: Kept | None = None
    """For each layer which of its `heads` it keeps, counting from 1, as `[[1, 3], [2]]`; without it all of them.
    `clearhead prune` removes heads and writes this; sizes and positions of a head stay as if all were there."""

    def sizes(self, width: int) -> tuple[int, int]:
        """Given sizes, or width / heads."""
        return self.query_size or width // self.heads, self.value_size or width // self.heads

    @property
    def same_in_all_layers(self) -> bool:
        """Unless heads are removed from some of them."""
        return self.kept is None

    def kept_in(self, layer: int) -> list[int] | None:
        """What `kept` says, unless it names all heads."""
        kept = None if self.kept is None else self.kept[layer - 1]
        return None if kept is None or len(kept) == self.heads else kept

    def refusals(self, place: AttentionPlace) -> Iterator[tuple[str, str]]:
        """Sizes that do not fit each other, and heads that are not there to be kept."""
        if place.width % self.heads and (self.query_size is None or self.value_size is None):
            yield (
                "heads",
                f"heads ({self.heads}) must divide the width ({place.width}), "
                "unless query_size and value_size are both given",
            )
            return
        yield from super().refusals(place)
        if self.kept is not None:
            yield from self._kept_refusals(self.kept, place)

    def _kept_refusals(self, kept: Kept, place: AttentionPlace) -> Iterator[tuple[str, str]]:
        if len(kept) != place.layers:
            yield "kept", f"names the heads of {len(kept)} layers, and there are {place.layers}"
        for layer, heads in enumerate(kept, start=1):
            if heads != sorted(set(heads)) or heads[-1] > self.heads:
                yield "kept", f"layer {layer}: {heads} is not a rising list of heads from 1 to {self.heads}"


class MultiHeadSpec(FreeHeadsSpec):
    """Multi-head attention with free sizes (L0.7): several attentions side by side, concatenated."""

    relative: ClassVar[bool] = True
    kind: Literal["multihead"] = "multihead"
    score: Literal["dot", "multiplicative", "additive"] = "dot"
    """How a query meets a key: q·k, q·W·k, or u·tanh(q + k)."""
    scale: Literal["sqrt", "dim", "none"] | Annotated[float, Field(gt=0, le=1e6)] = "sqrt"
    """What the score is divided by: √d̃_q, d̃_q (L2.9), nothing, or this number."""
    choice: Literal["soft", "hard"] = "soft"
    """Softmax over all keys, or the one best key (L0.3), trained straight-through."""
    projections: bool = True
    """W_Q, W_K, W_V; without them every head attends with a slice of the tokens themselves (L4.5)."""
    output: bool = True
    """W_O after the heads; without it their concatenation is the output (L3.1)."""
    bias: bool = True
    """A bias in each projection."""
    output_bias: bool | None = None
    """A bias in W_O; without it as `bias` says (Qwen2: biases in W_Q, W_K and W_V alone)."""
    kv_heads: Count | None = None
    """Heads of keys and values, each shared by heads / kv_heads neighbouring heads of queries (grouped-query
    attention; 1: multi-query attention); a cache stores these alone. Without it every head has its own."""
    qk_norm: Literal["none", "rmsnorm", "layernorm"] = "none"
    """Normalise each query and each key in its head, before positions turn them (Qwen3, Gemma 3: rmsnorm; Phi:
    layernorm); all heads share the gain."""
    qk_norm_eps: Annotated[float, Field(ge=0, le=1)] = 1e-6
    """Keeps the division of `qk_norm` away from zero."""
    qk_norm_unit_offset: bool = False
    """Store the gain of `qk_norm = rmsnorm` without 1, as `unit_offset` of a norm does (Gemma 3)."""
    cap: Annotated[float, Field(gt=0, le=1e6)] | None = None
    """c·tanh(score/c) in place of the scaled score, which so stays within ±c (Gemma 2); the weights must then be
    formed."""

    def refusals(self, place: AttentionPlace) -> Iterator[tuple[str, str]]:
        """Sizes that do not fit each other, and positions that this score cannot carry."""
        problems = list(super().refusals(place))
        yield from problems
        if any(setting == "heads" for setting, _ in problems):
            return
        even = place.width % self.heads == 0
        query_size, value_size = self.sizes(place.width)
        if self.kv_heads is not None and self.heads % self.kv_heads:
            yield "kv_heads", f"kv_heads ({self.kv_heads}) must divide heads ({self.heads})"
        if self.qk_norm_unit_offset and self.qk_norm != "rmsnorm":
            yield "qk_norm_unit_offset", f"is a setting of qk_norm = rmsnorm, and qk_norm is {self.qk_norm}"
        if not self.projections:
            if self.kv_heads not in (None, self.heads):
                yield "kv_heads", "without projections every head has keys and values of its own, a slice of the tokens"
            if not even or (query_size, value_size) != (place.width // self.heads,) * 2:
                yield "projections", "without projections a head is a slice of width / heads: give no sizes"
            if place.memory_width != place.width:
                yield (
                    "projections",
                    f"without projections the memory ({place.memory_width}) must be as wide as the "
                    f"queries ({place.width})",
                )
        if not self.output and self.heads * value_size != place.width:
            yield (
                "output",
                f"without W_O the heads' outputs together ({self.heads} × {value_size}) "
                f"must be as wide as the tokens ({place.width})",
            )
        if place.position is not None:
            yield from self._position_refusals(place.position, query_size)

    def _kept_refusals(self, kept: Kept, place: AttentionPlace) -> Iterator[tuple[str, str]]:
        yield from super()._kept_refusals(kept, place)
        if self.kv_heads is not None:
            yield "kept", "heads that share keys and values cannot be removed one by one"
        if not self.projections:
            yield "kept", "without projections a head is a slice of the tokens: it has no weights to remove"
        if not self.output:
            yield "kept", "without W_O the heads' outputs together are as wide as the tokens: none can be removed"

    def _position_refusals(self, position: PositionSpec, query_size: int) -> Iterator[tuple[str, str]]:
        if position.multiplies and self.score == "additive":
            yield "score", f"{position.kind} positions act on products q·k, and an additive score is none"
        turned = getattr(position, "features", None)
        if turned is not None and turned > query_size:
            yield "query_size", f"{position.kind} turns {turned} features of a head, and it has {query_size}"
        if position.rotates and turned is None and query_size % 2:
            yield (
                "query_size",
                f"{position.kind} turns pairs of features: the head size ({query_size}) must be even",
            )


class LinformerSpec(MultiHeadSpec):
    """Multi-head attention over a few sums of keys and values (L2.14): linear in the length, which has a bound."""

    causal: ClassVar[bool] = False
    relative: ClassVar[bool] = False
    shared_by: ClassVar[tuple[str, ...]] = ("encoder",)
    kind: Literal["linformer"] = "linformer"  # type: ignore[assignment]
    rank: Count = 64
    """Slots that keys and values are summed up into, k."""
    length: Count = 512
    """The longest sequence, for which the sums have weights; a longer one is an error."""
    sharing: Literal["none", "headwise", "key-value", "layerwise"] = "headwise"
    """What shares the weights of the sums: nothing, all heads, also keys and values, also all layers of a stack."""

    def refusals(self, place: AttentionPlace) -> Iterator[tuple[str, str]]:
        """What multi-head attention refuses, and shared keys, which sums over the length do not know."""
        yield from super().refusals(place)
        if self.kv_heads not in (None, self.heads):
            yield "kv_heads", "linformer attention sums up keys and values of every head: leave kv_heads out"


class DisentangledSpec(FreeHeadsSpec):
    """Content and distance meet separately (L4.9, DeBERTa): content to content, to position, and back."""

    shared_by: ClassVar[tuple[str, ...]] = ("encoder", "decoder")
    brings_position: ClassVar[bool] = True
    kind: Literal["disentangled"] = "disentangled"
    terms: Annotated[list[Term], Field(min_length=1, max_length=3)] = Field(["c2c", "c2p", "p2c"])
    """Which terms make up the score; it is divided by √(their number · head size)."""
    span: Annotated[int, Field(ge=2, le=1_000_000)] = 128
    """Distances are distinguished up to this one, k; those beyond share its vector."""
    buckets: Annotated[int, Field(ge=4, le=1_000_000, multiple_of=2)] | None = None
    """Vectors for each direction, fewer than the distances: far ones share them logarithmically (v2)."""
    normalised: bool = False
    """Normalise the table of relative positions (v2)."""
    shared_projections: bool = False
    """Positions are projected by the content's own W_Q and W_K (v2)."""
    p2c_index: Literal["released", "paper"] = "released"
    """Whether a key meets the distance i − j, as in every released model, or j − i, as the paper prints it."""
    choice: Literal["soft", "hard"] = "soft"
    """Softmax over all keys, or the one best key (L0.3), trained straight-through."""
    bias: bool = True
    """A bias in each projection."""

    def refusals(self, place: AttentionPlace) -> Iterator[tuple[str, str]]:
        """Buckets that do not save rows, and projections that cannot be shared."""
        yield from super().refusals(place)
        if self.buckets is not None and self.buckets >= self.span:
            yield "buckets", f"must be fewer than the distances told apart, span = {self.span}"
        if self.shared_projections and place.memory_width != place.width:
            yield (
                "shared_projections",
                f"the memory ({place.memory_width}) is not as wide as the table of positions ({place.width})",
            )


register(
    MultiHeadSpec,
    module="clearhead.attention.multihead:MultiHeadAttention",
    cost="clearhead.costing.forms.attention:multihead",
)
register(
    LinformerSpec,
    module="clearhead.attention.linformer:LinformerAttention",
    cost="clearhead.costing.forms.attention:linformer",
)
register(
    DisentangledSpec,
    module="clearhead.attention.disentangled:DisentangledAttention",
    cost="clearhead.costing.forms.disentangled:disentangled",
)
