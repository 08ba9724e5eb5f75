"""Specs of convolutional encoders and decoders: each token sees a few tokens around it (Table 1, L4.6).

They stand where Transformer stacks stand: any encoder feeds any decoder.
"""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from clearhead.recipe.feedforward import Activation
from clearhead.recipe.grid import PatchesSpec
from clearhead.recipe.registry import register
from clearhead.recipe.stack import DecoderSpec, EncoderSpec, ResidualSpec

FARTHEST = 10_000_000
"""How far apart the tokens of one kernel may be."""


class ConvolutionalSpec(ResidualSpec):
    """A stack of convolutions, each followed by a nonlinearity, inside Add & Norm."""

    kind: Literal["convolutional"] = "convolutional"
    kernel: Annotated[int, Field(ge=2, le=1_000)] = 3
    """Tokens that a convolution sees, k: in an encoder the token in the middle (k odd), in a decoder the last one."""
    dilation: Literal["powers"] | Annotated[int, Field(ge=1, le=100_000)] = "powers"
    """How far apart these tokens are: `powers` is 1, k, k² … from layer to layer, so that ⌈log_k n⌉ layers join n
    tokens; or a number for all layers."""
    activation: Activation = "relu"
    """The nonlinearity after each convolution."""
    bias: bool = True
    """A bias in each convolution."""

    def dilations(self) -> list[int]:
        """The dilation of each layer."""
        return [self.kernel**number if self.dilation == "powers" else self.dilation for number in range(self.layers)]

    def reach(self, dilation: int) -> tuple[int, int]:
        """How many tokens before, and after, a convolution with this dilation sees."""
        whole = (self.kernel - 1) * dilation
        return (whole, 0) if self.causal else (whole // 2, whole // 2)

    def refusals(self, patches: PatchesSpec | None = None) -> Iterator[tuple[str, str]]:
        """Kernels without a middle, dilations beyond any text, and settings of parts that are not there."""
        yield from super().refusals(patches)
        yield from self.surrounding_refusals()
        if not self.causal and self.kernel % 2 == 0:
            yield (
                "kernel",
                f"in an encoder the token stands in the middle of its kernel, which is odd, not {self.kernel}",
            )
        if self.dilation == "powers" and self.kernel ** (self.layers - 1) > FARTHEST:
            yield "dilation", f"in layer {self.layers} the tokens of a kernel would be more than {FARTHEST:,} apart"
        if self.position.enters == "attention":
            yield (
                "position.kind",
                f"{self.position.kind} positions act inside self-attention, which a convolutional stack has not: "
                "use none, sinusoidal or learned",
            )
        elif self.position.planar:
            yield "position.kind", f"{self.position.kind} positions need a grid"
        if self.dropout.activation:
            yield "dropout.activation", "a convolutional stack has no feed-forward net: leave it at 0"


class ConvolutionalEncoderSpec(ConvolutionalSpec, EncoderSpec):
    """Convolutions that see as far to the right as to the left."""

    causal: ClassVar[bool] = False

    def refusals(self, patches: PatchesSpec | None = None) -> Iterator[tuple[str, str]]:
        """The same, and dropout of weights that are not there."""
        yield from super().refusals(patches)
        if self.dropout.attention:
            yield "dropout.attention", "a convolutional encoder has no attention: give it to the decoder alone"


class ConvolutionalDecoderSpec(ConvolutionalSpec, DecoderSpec):
    """Convolutions that see only what came before, and the encoder through `[model.cross]`."""

    causal: ClassVar[bool] = True
    crosses: ClassVar[bool] = True


register(
    ConvolutionalEncoderSpec,
    module="clearhead.models.convolutional:ConvolutionalEncoder",
    cost="clearhead.costing.forms.convolutional:ConvolutionalForm",
)
register(
    ConvolutionalDecoderSpec,
    module="clearhead.models.convolutional:ConvolutionalDecoder",
    cost="clearhead.costing.forms.convolutional:ConvolutionalForm",
)
