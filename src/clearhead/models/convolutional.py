"""Builds convolutional encoders and decoders from a recipe."""

from torch import nn

from clearhead.blocks import Convolution, ConvolutionLayer, Stack
from clearhead.models.assemble import attention_maker, cross_scheme, make_around, make_embedding, make_norm
from clearhead.recipe import ConvolutionalSpec, CrossSpec, EmbeddingSpec, module_of


def make_convolutions(
    spec: ConvolutionalSpec,
    *,
    tokens: nn.Embedding,
    embedding: EmbeddingSpec,
    cross: CrossSpec | None = None,
    memory_width: int | None = None,
) -> Stack:
    """Make an encoder or a decoder; ``cross`` adds cross-attention over a memory of ``memory_width`` features."""
    absolute = module_of(spec.position).from_spec(spec.position, width=spec.width)
    make_cross = None if cross is None else attention_maker(spec, cross.attention, memory_width or spec.width)
    layers = [
        ConvolutionLayer(
            convolution=Convolution(
                width=spec.width,
                kernel=spec.kernel,
                dilation=dilation,
                causal=spec.causal,
                activation=spec.activation,
                bias=spec.bias,
            ),
            around_convolution=make_around(spec),
            cross=None if make_cross is None else make_cross(number),
            around_cross=None if make_cross is None else make_around(spec),
        )
        for number, dilation in enumerate(spec.dilations(), start=1)
    ]
    return Stack(
        embedding=make_embedding(spec, tokens, embedding, absolute),
        layers=layers,
        causal=spec.causal,
        cross_scheme=None if cross is None else cross_scheme(cross, spec.width),
        final_norm=make_norm(spec.norm, spec.width) if spec.norm.has_final else None,
    )


class ConvolutionalEncoder:
    """Builds a convolutional encoder, for the registry."""

    @classmethod
    def from_spec(cls, spec: ConvolutionalSpec, *, tokens: nn.Embedding, embedding: EmbeddingSpec) -> Stack:
        """Build from a recipe."""
        return make_convolutions(spec, tokens=tokens, embedding=embedding)


class ConvolutionalDecoder:
    """Builds a convolutional decoder, for the registry."""

    @classmethod
    def from_spec(
        cls,
        spec: ConvolutionalSpec,
        *,
        tokens: nn.Embedding,
        embedding: EmbeddingSpec,
        cross: CrossSpec | None,
        memory_width: int | None,
    ) -> Stack:
        """Build from a recipe; ``cross`` is None for a language model."""
        return make_convolutions(spec, tokens=tokens, embedding=embedding, cross=cross, memory_width=memory_width)
