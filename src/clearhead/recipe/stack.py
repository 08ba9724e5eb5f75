"""Encoders and decoders in a recipe, and what cannot work together in one."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, SerializeAsAny

from clearhead.recipe.attention import AttentionPlace, AttentionSpec, Count, MultiHeadSpec
from clearhead.recipe.feedforward import FeedForwardSpec, StandardSpec
from clearhead.recipe.grid import PatchesSpec
from clearhead.recipe.norm import LayerNormSpec, NormSpec
from clearhead.recipe.position import LearnedSpec, NoPositionSpec, PositionSpec, SinusoidalSpec
from clearhead.recipe.registry import register
from clearhead.recipe.spec import KindSpec, Spec
from clearhead.recipe.vocabulary import EmbeddingSpec

Rate = Annotated[float, Field(ge=0, lt=1)]


class DropoutSpec(Spec):
    """Where activations are dropped while training, and how often."""

    residual: Rate | Literal["auto"] = "auto"
    """The output of each sublayer, before it is added to its input, or of each recurrent layer; auto: (parameters /
    training tokens) · passes over the data / 1200, at most 0.3 (0.2 with training.agreement), and 0 below 0.03: a
    model that sees much data a few times learns fastest without (0.1 for a model that is not trained from data)."""
    embedding: Rate | Literal["auto"] = "auto"
    """The sum of token and position embeddings; auto: as for residual."""
    attention: Rate = 0.0
    """The attention weights; anything above 0 forces the slow, explicit computation on a CPU."""
    activation: Rate = 0.0
    """Between the two maps of the feed-forward net."""


def dropout_rate(setting: float | str) -> float:
    """The rate that a setting stands for; ``auto`` is resolved when training is prepared, and 0.1 elsewhere."""
    return 0.1 if isinstance(setting, str) else setting


class NgramsSpec(Spec):
    """Vectors for the tokens around each token, from a table of n-grams."""

    reach: Annotated[int, Field(ge=0, le=16)] = 0
    """How far n-grams reach to either side of a token: a table has all that contain it and begin and end no farther
    away; 0 for no table. For small alphabets, such as letters: what one means depends on those beside it."""
    buckets: Annotated[int, Field(ge=1, le=100_000_000)] = 4096
    """Rows of the table for each of the (reach + 1)² − 1 n-grams of a token; a hash says which row one has."""
    width: Count = 64
    """Features of a row; one linear map leads from all n-grams of a token to its width."""
    dropout: Rate | Literal["auto"] = "auto"
    """How often a row is dropped while training, as if its n-gram were unknown, as many of those in new lines are;
    auto: 0.3 where `dropout.residual = auto` is not 0, so that a table that is seen often is not learnt by heart."""

    def with_dropout(self, rate: float) -> Self:
        """The same table, with its dropout resolved if that is ``auto``, for a stack whose own dropout is ``rate``."""
        return self.replaced(dropout=0.3 if rate else 0.0) if self.dropout == "auto" else self


class StackSpec(KindSpec):
    """What encoders and decoders of every kind share."""

    kind: str
    """Which kind: see `clearhead presets --kinds`."""
    width: Count = 192
    """Features of a token, d."""
    layers: Annotated[int, Field(ge=1, le=10_000)] = 3
    """Number of layers."""
    dropout: DropoutSpec = DropoutSpec()
    """Where activations are dropped while training."""

    @property
    def out_width(self) -> int:
        """Features of the vectors that it hands on."""
        return self.width

    def with_dropout(self, rate: float) -> Self:
        """The same stack, with this rate wherever its dropout is ``auto``."""
        places = [place for place, given in self.dropout if given == "auto"]
        return self.replaced(dropout=self.dropout.replaced(**dict.fromkeys(places, rate)))

    def refusals(self, patches: PatchesSpec | None = None) -> Iterator[tuple[str, str]]:
        """Yield (setting, reason) for what cannot work together; settings are relative to the stack.

        ``patches`` are what it reads, if it reads images.
        """
        if patches is not None:
            yield "kind", f"a {self.kind} stack reads sequences: patches of an image need a transformer"

    def embedding_refusals(self, embedding: EmbeddingSpec) -> Iterator[tuple[str, str]]:
        """Yield (setting of ``[model.embedding]``, reason) for what this stack cannot be embedded with."""
        del embedding
        yield from ()


class EncoderSpec(StackSpec):
    """The base of every encoder; a new kind derives from it and is made known with ``register``."""

    slot: ClassVar[str] = "encoder"


class CrossSpec(Spec):
    """The decoder's attention over the encoder's output."""

    own: ClassVar[frozenset[str]] = frozenset({"position"})
    attention: SerializeAsAny[AttentionSpec] = MultiHeadSpec()
    """Which attention."""
    position: SerializeAsAny[PositionSpec] = NoPositionSpec()
    """What the decoder's tokens know of how far they are from the encoder's: `none`, only what the vectors hold; or
    `rope`, for two sequences that run side by side, such as letters and sounds."""

    def refusals(self) -> Iterator[tuple[str, str]]:
        """Yield (setting of ``[model]``, reason) for positions that cannot act between two sequences."""
        if self.position.kind != "none" and not self.position.rotates:
            yield "cross.position.kind", f"{self.position.kind} positions cannot act between two sequences: use rope"
            return
        for setting, reason in self.position.refusals(width=1, causal=False):
            yield f"cross.position.{setting}", reason
        if self.position.in_windows() != self.position:
            yield "cross.position.window_base", "cross-attention sees no windows: use base"


class DecoderSpec(StackSpec):
    """The base of every decoder; a new kind derives from it and is made known with ``register``."""

    slot: ClassVar[str] = "decoder"
    crosses: ClassVar[bool] = False
    """Attends to the encoder through ``[model.cross]``; otherwise by settings of its own, or not at all."""

    def memory_refusals(self, memory_width: int | None) -> Iterator[tuple[str, str]]:
        """Yield (setting, reason) for what cannot attend to an encoder of this width; None if there is no encoder."""
        del memory_width
        yield from ()


class ResidualSpec(StackSpec):
    """A stack of layers whose sublayers stand inside Add & Norm."""

    causal: ClassVar[bool]
    """A token sees only itself and what came before."""
    position: SerializeAsAny[PositionSpec] = SinusoidalSpec()
    """How the stack knows the order of its tokens."""
    norm: SerializeAsAny[NormSpec] = LayerNormSpec()
    """Normalisation around each sublayer."""
    residual: bool = True
    """x + f(x) around each sublayer (L2.7); without it deep stacks hardly train (L1.8)."""

    @property
    def ends_centred(self) -> bool:
        """Whether a norm over the sequence comes last, after which the mean of all tokens is 0."""
        return self.norm.centres_features and (self.norm.place == "post" or self.norm.has_final)

    def surrounding_refusals(self) -> Iterator[tuple[str, str]]:
        """What norm and positions cannot do in this stack."""
        if self.causal and self.norm.mixes_positions:
            yield (
                "norm.axis",
                "statistics over the sequence would show a decoder the future: use axis = token",
            )
        for setting, reason in self.position.refusals(width=self.width, causal=self.causal):
            yield setting[2:] if setting.startswith("..") else f"position.{setting}", reason


class TransformerSpec(ResidualSpec):
    """A stack of equal Transformer layers: the encoder, or the decoder."""

    attention: SerializeAsAny[AttentionSpec] = MultiHeadSpec()
    """Self-attention."""
    feedforward: SerializeAsAny[FeedForwardSpec] = StandardSpec()
    """The point-wise net of each layer."""
    parallel: Literal["no", "one-norm", "two-norms"] = "no"
    """x + attention(norm(x)) + net(norm(x)) in place of one after the other: with one norm for both (Phi), or with two
    (GPT-NeoX)."""
    shared: bool = False
    """All layers have the same weights (ALBERT): they are stored, counted and trained once, and used in every layer."""

    @property
    def out_width(self) -> int:
        """What the net of the last layer puts out."""
        return self.feedforward.out_width or self.width

    def refusals(self, patches: PatchesSpec | None = None) -> Iterator[tuple[str, str]]:
        """What attention, norm and positions cannot do in this stack."""
        part: Literal["encoder", "decoder"] = "decoder" if self.causal else "encoder"
        inside = self.position if self.position.enters == "attention" else None
        place = AttentionPlace(
            part=part,
            width=self.width,
            memory_width=self.width,
            causal=self.causal,
            position=inside,
            grid=None if patches is None else patches.grid,
            class_token=patches is not None and patches.class_token,
            layers=self.layers,
        )
        for setting, reason in self.attention.refusals(place):
            yield f"attention.{setting}", reason
        yield from self.surrounding_refusals()
        yield from self._parallel_refusals()
        if not self.norm.first and (self.norm.place == "post" or self.parallel == "one-norm"):
            yield "norm.first", "only a norm of its own before the first sublayer can be left out"
        if self.shared and not (self.norm.first and self.attention.same_in_all_layers and self.out_width == self.width):
            yield (
                "shared",
                "layers with the same weights are all alike: none lacks a norm or heads, or has its own width",
            )
        layers = range(1, self.layers + 1)
        if self.position.in_windows() != self.position and not any(map(self.attention.sees_window, layers)):
            yield "position.window_base", "no layer sees a window: use attention.kind = local, or base alone"
        for setting, reason in _grid_refusals(self.position, patches):
            yield f"position.{setting}", reason

    def _parallel_refusals(self) -> Iterator[tuple[str, str]]:
        if self.parallel == "no":
            return
        if self.norm.place != "pre" or not self.residual:
            yield "parallel", "attention and net side by side are added to x: they need norm.place = pre, and residual"
        if self.out_width != self.width:
            yield "parallel", "attention and net side by side are added up: the net cannot put out another width"


def _grid_refusals(position: PositionSpec, patches: PatchesSpec | None) -> Iterator[tuple[str, str]]:
    """Positions that need a grid, and tables that do not hold one."""
    if position.planar and patches is None:
        yield "kind", f"{position.kind} positions need a grid: give [model.patches] to an encoder or a classifier"
    elif position.planar and position.enters == "attention" and patches is not None and patches.class_token:
        yield (
            "kind",
            f"a class token has no place in the grid, so {position.kind} knows no distance to it: "
            "use learned or sinusoidal-2d, or no class token",
        )
    if isinstance(position, LearnedSpec) and patches is not None and position.size < patches.tokens:
        yield "size", f"an image becomes {patches.tokens} tokens, the table holds {position.size} positions"


class TransformerEncoderSpec(TransformerSpec, EncoderSpec):
    """Transformer layers that see the whole sequence."""

    causal: ClassVar[bool] = False
    kind: Literal["transformer"] = "transformer"
    ngrams: NgramsSpec = NgramsSpec()
    """What is added to the embeddings for the tokens around each token."""

    def with_dropout(self, rate: float) -> Self:
        """The same stack, with this rate wherever its dropout is ``auto``, and that of n-grams resolved."""
        return super().with_dropout(rate).replaced(ngrams=self.ngrams.with_dropout(rate))

    def refusals(self, patches: PatchesSpec | None = None) -> Iterator[tuple[str, str]]:
        """N-grams need tokens, beside what any stack cannot do."""
        yield from super().refusals(patches)
        if self.ngrams.reach and patches is not None:
            yield "ngrams.reach", "patches of an image are no tokens, so there are no n-grams of them"


class TransformerDecoderSpec(TransformerSpec, DecoderSpec):
    """Transformer layers that see only what came before, and the encoder through `[model.cross]`."""

    causal: ClassVar[bool] = True
    crosses: ClassVar[bool] = True
    kind: Literal["transformer"] = "transformer"

    def memory_refusals(self, memory_width: int | None) -> Iterator[tuple[str, str]]:
        """Side by side, attention and net leave no place for cross-attention between them."""
        if memory_width is not None and self.parallel != "no":
            yield "parallel", "cross-attention stands between attention and net: use no"


register(
    TransformerEncoderSpec,
    module="clearhead.models.assemble:TransformerEncoder",
    cost="clearhead.costing.forms.stack:TransformerForm",
)
register(
    TransformerDecoderSpec,
    module="clearhead.models.assemble:TransformerDecoder",
    cost="clearhead.costing.forms.stack:TransformerForm",
)
