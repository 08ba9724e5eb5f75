"""Specs of recurrent encoders and decoders, and of how a recurrent decoder attends to the encoder (L1.3).

They stand where Transformer stacks stand: either encoder feeds either decoder.
"""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field, SerializeAsAny

from clearhead.recipe.attention import Count
from clearhead.recipe.grid import PatchesSpec
from clearhead.recipe.model import Seq2SeqSpec
from clearhead.recipe.registry import register
from clearhead.recipe.spec import KindSpec
from clearhead.recipe.stack import DecoderSpec, EncoderSpec, StackSpec
from clearhead.recipe.vocabulary import EmbeddingSpec


class AlignmentSpec(KindSpec):
    """The base of what a recurrent decoder knows of the source at each step."""

    slot: ClassVar[str] = "alignment"
    looks: ClassVar[bool] = True
    """Weighs the encoder's vectors; otherwise the decoder knows only what it started from."""

    kind: str
    """Which attention: see `clearhead presets --kinds`."""

    def refusals(self, *, state: int, memory_width: int) -> Iterator[tuple[str, str]]:
        """Yield (setting, reason) for what cannot work between states and memory of these widths."""
        del state, memory_width
        yield from ()


class NoAlignmentSpec(AlignmentSpec):
    """No attention: all that the decoder knows of the source is the state that it starts from."""

    looks: ClassVar[bool] = False
    kind: Literal["none"] = "none"


class BahdanauSpec(AlignmentSpec):
    """Bahdanau's attention: the state before the step asks, and the answer enters the step."""

    kind: Literal["bahdanau"] = "bahdanau"
    size: Count | None = None
    """Features in which state and memory meet, u·tanh(Ws + Uh); without it as many as the state has."""
    choice: Literal["soft", "hard"] = "soft"
    """Softmax over the source, or the one best token (L0.3), trained straight-through."""
    readout: Literal["maxout", "tanh"] = "maxout"
    """How state, token and context become the output: the larger of each two features (the paper), or tanh."""


class LuongSpec(AlignmentSpec):
    """Luong's attention: the state after the step asks, and the answer makes the output."""

    kind: Literal["luong"] = "luong"
    score: Literal["dot", "general", "concat"] = "general"
    """How a state s meets a vector h of the memory: s·h, s·Wh, or u·tanh(W[s; h])."""
    choice: Literal["soft", "hard"] = "soft"
    """Softmax over the source, or the one best token (L0.3), trained straight-through."""
    input_feeding: bool = True
    """Each output enters the next step; without it the steps of all target tokens are one call while training."""

    def refusals(self, *, state: int, memory_width: int) -> Iterator[tuple[str, str]]:
        """A plain dot product needs vectors of one width."""
        if self.score == "dot" and state != memory_width:
            yield (
                "score",
                f"a dot product needs a state ({state}) as wide as the encoder's vectors ({memory_width}): "
                "use score = general, or change decoder.state",
            )


class _Recurrent(StackSpec):
    kind: Literal["recurrent"] = "recurrent"
    layers: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Number of layers."""
    cell: Literal["gru", "lstm", "elman"] = "gru"
    """What carries the state on: GRU, LSTM, or the plain tanh(Wx + Us + b)."""
    state: Count | None = None
    """Features of the state, in each direction; without it as many as a token has."""

    @property
    def state_size(self) -> int:
        """Features of the state."""
        return self.state or self.width

    def embedding_refusals(self, embedding: EmbeddingSpec) -> Iterator[tuple[str, str]]:
        """A recurrent stack has no norm."""
        if embedding.norm:
            yield "norm", "a recurrent stack has no norm that its embeddings could share: use norm = false"

    def refusals(self, patches: PatchesSpec | None = None) -> Iterator[tuple[str, str]]:
        """Dropout in places that are not there, and images."""
        yield from super().refusals(patches)
        if self.dropout.activation:
            yield "dropout.activation", "a recurrent stack has no feed-forward net: leave it at 0"


class RecurrentEncoderSpec(_Recurrent, EncoderSpec):
    """A recurrent net that reads token by token: each vector has seen what came before, and perhaps what follows."""

    bidirectional: bool = True
    """A second net reads backwards; the vectors of both stand side by side."""

    @property
    def out_width(self) -> int:
        """The states of both directions, side by side."""
        return self.state_size * (2 if self.bidirectional else 1)

    def refusals(self, patches: PatchesSpec | None = None) -> Iterator[tuple[str, str]]:
        """Dropout in places that are not there."""
        yield from super().refusals(patches)
        if self.dropout.attention:
            yield "dropout.attention", "a recurrent encoder has no attention: give it to the decoder alone"


class RecurrentDecoderSpec(_Recurrent, DecoderSpec):
    """A recurrent net that writes token by token, with or without attention to the encoder (L1.3)."""

    attention: SerializeAsAny[AlignmentSpec] = LuongSpec()
    """How it attends to the encoder."""
    start: Literal["ends", "mean", "zero"] = "ends"
    """The first state: tanh(W·x) of the encoder's first and last vectors, or of the mean of all; or zero."""

    def refusals(self, patches: PatchesSpec | None = None) -> Iterator[tuple[str, str]]:
        """Dropout in places that are not there, and a decoder that would know nothing of the source."""
        yield from super().refusals(patches)
        if self.dropout.attention and not self.attention.looks:
            yield "dropout.attention", "there is no attention: leave it at 0"

    def memory_refusals(self, memory_width: int | None) -> Iterator[tuple[str, str]]:
        """What attention asks of the encoder, and that there is one."""
        if memory_width is None:
            if self.attention.looks:
                yield "attention.kind", "there is no encoder to look at: use attention.kind = none"
            return
        for setting, reason in self.attention.refusals(state=self.state_size, memory_width=memory_width):
            yield f"attention.{setting}", reason
        if not self.attention.looks and self.start == "zero":
            yield "start", "without attention the first state is all that the decoder knows of the source: use ends"


class RecurrentSpec(Seq2SeqSpec):
    """Recurrent encoder and decoder: what Transformers replace (L1.2, L1.3); each may also be a Transformer."""

    family: Literal["recurrent"] = "recurrent"  # type: ignore[assignment]
    encoder: SerializeAsAny[EncoderSpec] = RecurrentEncoderSpec()
    """Reads the source."""
    decoder: SerializeAsAny[DecoderSpec] = RecurrentDecoderSpec()
    """Writes the target, token by token."""


register(
    NoAlignmentSpec,
    module="clearhead.blocks.alignment:NoAlignment",
    cost="clearhead.costing.forms.alignment:NoAlignmentForm",
)
register(
    BahdanauSpec,
    module="clearhead.blocks.alignment:BahdanauAlignment",
    cost="clearhead.costing.forms.alignment:BahdanauForm",
)
register(
    LuongSpec, module="clearhead.blocks.alignment:LuongAlignment", cost="clearhead.costing.forms.alignment:LuongForm"
)
register(
    RecurrentEncoderSpec,
    module="clearhead.blocks.recurrent:RecurrentEncoder",
    cost="clearhead.costing.forms.recurrent:RecurrentEncoderForm",
)
register(
    RecurrentDecoderSpec,
    module="clearhead.blocks.recurrent:RecurrentDecoder",
    cost="clearhead.costing.forms.recurrent:RecurrentDecoderForm",
)
register(RecurrentSpec, module="clearhead.models.seq2seq:Seq2Seq", cost="clearhead.costing.forms.family:Seq2SeqForm")
