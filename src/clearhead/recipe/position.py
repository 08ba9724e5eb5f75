"""Specs of positions: how a model learns where a token stands."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from clearhead.recipe.registry import register
from clearhead.recipe.spec import KindSpec

TrainedLength = Annotated[int, Field(ge=1, le=1_000_000_000)]


class PositionSpec(KindSpec):
    """The base of every position scheme; a new kind derives from it and is made known with ``register``."""

    slot: ClassVar[str] = "position"
    enters: ClassVar[Literal["embedding", "attention"]]
    """Added to the token embeddings once, or acting inside every self-attention of the stack."""
    rotates: ClassVar[bool] = False
    """Turns pairs of features of queries and keys, so that it needs an even head size."""
    multiplies: ClassVar[bool] = False
    """Acts on products of queries with keys, so that it needs a score that is one."""
    per_layer: ClassVar[bool] = False
    """Every layer of a stack has weights of its own; otherwise all layers share one scheme."""
    per_head: ClassVar[bool] = False
    """Gives every head a bias of its own; where heads are removed, the others keep theirs."""
    planar: ClassVar[bool] = False
    """Knows the rows and columns of a grid; its module is then given the grid."""

    kind: str
    """Which scheme: see `clearhead presets --kinds`."""

    def in_windows(self) -> "PositionSpec":
        """The scheme of layers that see a window; ``self``, unless they have another one."""
        return self

    def refusals(self, *, width: int, causal: bool) -> Iterator[tuple[str, str]]:
        """Yield (setting, reason) for what cannot work in a stack of this width; ``..width`` is the stack's own."""
        del width, causal
        yield from ()


class NoPositionSpec(PositionSpec):
    """No order at all: the model sees a set (L1.10)."""

    enters: ClassVar[Literal["embedding", "attention"]] = "embedding"
    kind: Literal["none"] = "none"


class SinusoidalSpec(PositionSpec):
    """Sines and cosines of geometric wavelengths (L2.10); any length."""

    enters: ClassVar[Literal["embedding", "attention"]] = "embedding"
    kind: Literal["sinusoidal"] = "sinusoidal"
    layout: Literal["interleaved", "halves", "tensor2tensor"] = "interleaved"
    """sin, cos in turn (the paper); all sines, then all cosines (MarianMT); the same with i/(d/2−1)."""
    offset: Annotated[int, Field(ge=0, le=1000)] = 0
    """The number of the first position: M2M100 has pad + 1."""
    base: Annotated[float, Field(gt=1, le=1e12)] = 10_000.0
    """Sets the wavelengths, from 2π to about 2π times this."""
    trained_length: TrainedLength | None = None
    """Tokens of the longest texts that the model was made for: a note that comes in with imported models and goes out
    with exported ones (`max_position_embeddings`); longer texts are read all the same."""

    def refusals(self, *, width: int, causal: bool) -> Iterator[tuple[str, str]]:
        """Sines and cosines come in pairs."""
        del causal
        if width % 2:
            yield "..width", f"sinusoidal positions need an even width, not {width}"


class LearnedSpec(PositionSpec):
    """One learned vector per position; a sequence longer than the table is an error."""

    enters: ClassVar[Literal["embedding", "attention"]] = "embedding"
    kind: Literal["learned"] = "learned"
    size: Annotated[int, Field(ge=1, le=10_000_000)] = 512
    """How many positions the table holds."""
    offset: Annotated[int, Field(ge=0, le=1000)] = 0
    """Rows before the first position: BART has 2, RoBERTa pad + 1."""


class T5BucketsSpec(PositionSpec):
    """A learned bias per head and bucket of distances, shared by all layers of a stack; any length."""

    enters: ClassVar[Literal["embedding", "attention"]] = "attention"
    per_head: ClassVar[bool] = True
    kind: Literal["t5"] = "t5"
    buckets: Annotated[int, Field(ge=4, le=1_000_000, multiple_of=2)] = 32
    """How many buckets; half of them for each direction where both are seen."""
    max_distance: Annotated[int, Field(ge=2, le=10_000_000)] = 128
    """From this distance on all tokens share a bucket."""

    def refusals(self, *, width: int, causal: bool) -> Iterator[tuple[str, str]]:
        """The buckets that hold one distance each must end before the last distance."""
        del width
        exact = self.buckets // (2 if causal else 4)
        if self.max_distance <= exact:
            yield "max_distance", f"must be more than {exact}, the distances that have a bucket of their own"


class AlibiSpec(PositionSpec):
    """A fixed bias per head that grows with the distance, −slope · |j − i|; any length, and nothing to learn."""

    enters: ClassVar[Literal["embedding", "attention"]] = "attention"
    per_head: ClassVar[bool] = True
    kind: Literal["alibi"] = "alibi"


class ShawSpec(PositionSpec):
    """A learned vector for every distance, added to the keys, to the values, or to both (L2.12); any length."""

    enters: ClassVar[Literal["embedding", "attention"]] = "attention"
    multiplies: ClassVar[bool] = True
    per_layer: ClassVar[bool] = True
    kind: Literal["shaw"] = "shaw"
    relative: Literal["keys", "values", "both"] = "both"
    """Where the vectors enter: in the scores, in the outputs (as the notes have it), or in both."""
    farthest: Annotated[int, Field(ge=1, le=100_000)] = 16
    """Distances are distinguished up to this one, k; those beyond share its vector."""


class RotarySpec(PositionSpec):
    """RoPE: queries and keys are turned by an angle that grows with the position; any length."""

    enters: ClassVar[Literal["embedding", "attention"]] = "attention"
    rotates: ClassVar[bool] = True
    multiplies: ClassVar[bool] = True
    kind: Literal["rope"] = "rope"
    layout: Literal["halves", "interleaved"] = "halves"
    """Which features form a pair: i and i + d/2 (Llama), or 2i and 2i + 1 (GPT-J)."""
    base: Annotated[float, Field(gt=1, le=1e12)] = 10_000.0
    """Sets the wavelengths, from 2π to about 2π times this."""
    window_base: Annotated[float, Field(gt=1, le=1e12)] | None = None
    """The base in layers that see a window, if other layers see everything (Gemma 3, ModernBERT), and which `scaling`
    then leaves as they are; without it `base`, and all layers are alike."""
    features: Annotated[int, Field(ge=2, le=1_000_000, multiple_of=2)] | None = None
    """Features of a head that are turned, the first ones (Phi, GPT-NeoX); without it all of them."""
    scaling: Literal["none", "linear", "llama3", "yarn"] = "none"
    """How angles are slowed down for long texts: not at all; all of them by `factor`; or only those of long wavelengths
    (Llama 3.1; YaRN, which also makes scores larger)."""
    factor: Annotated[float, Field(ge=1, le=1e6)] = 1.0
    """By how much `scaling` slows angles down."""
    low: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    """llama3, yarn: wavelengths above `original`/`low` are slowed down by `factor` …"""
    high: Annotated[float, Field(gt=0, le=1e6)] | None = None
    """llama3, yarn: … those below `original`/`high` not at all, those between in part; without it 4, for yarn 32."""
    original: Annotated[int, Field(ge=1, le=100_000_000)] = 8192
    """llama3, yarn: the length of the texts that the model was first trained on."""
    rounded: bool = True
    """yarn: whether `low` and `high` are moved apart to the nearest wavelengths that there are."""
    magnitude: Annotated[float, Field(gt=0, le=1e3)] | None = None
    """yarn: what queries and keys are multiplied by; without it 0.1 · ln `factor` + 1."""
    trained_length: TrainedLength | None = None
    """Tokens of the longest texts that the model was made for: a note that comes in with imported models and goes out
    with exported ones (`max_position_embeddings`); longer texts are read all the same."""

    @property
    def fast(self) -> float:
        """``high``, or what the authors of a scaling took."""
        return self.high or (32.0 if self.scaling == "yarn" else 4.0)

    def in_windows(self) -> "RotarySpec":
        """With ``window_base`` and no scaling, if that is given."""
        if self.window_base is None:
            return self
        return RotarySpec(layout=self.layout, base=self.window_base, features=self.features)

    def refusals(self, *, width: int, causal: bool) -> Iterator[tuple[str, str]]:
        """A factor that nothing uses, and bounds in the wrong order."""
        del width, causal
        if self.scaling == "none" and self.factor != 1.0:
            yield "factor", "angles are not slowed down: give scaling, or leave factor out"
        if self.scaling in ("llama3", "yarn") and self.low >= self.fast:
            yield "low", f"must be less than high ({self.fast:g})"
        if self.scaling != "yarn" and (self.magnitude is not None or not self.rounded):
            yield "rounded" if self.magnitude is None else "magnitude", "is a setting of scaling = yarn"


register(NoPositionSpec, module="clearhead.positions.absolute:NoPosition", cost="clearhead.costing.forms.position:none")
register(
    SinusoidalSpec,
    module="clearhead.positions.absolute:SinusoidalPosition",
    cost="clearhead.costing.forms.position:sinusoidal",
)
register(
    LearnedSpec, module="clearhead.positions.absolute:LearnedPosition", cost="clearhead.costing.forms.position:learned"
)
register(T5BucketsSpec, module="clearhead.positions.relative:BucketBias", cost="clearhead.costing.forms.position:t5")
register(AlibiSpec, module="clearhead.positions.relative:AlibiBias", cost="clearhead.costing.forms.position:alibi")
register(ShawSpec, module="clearhead.positions.shaw:ShawPosition", cost="clearhead.costing.forms.position:shaw")
register(RotarySpec, module="clearhead.positions.relative:RotaryPosition", cost="clearhead.costing.forms.position:rope")
