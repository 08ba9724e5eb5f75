"""Builds stacks from a recipe; the only module that reads the recipe's settings of a stack."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from clearhead.blocks import AddNorm, Embedding, HeadTransform, Layer, NgramEmbedding, NoNorm, Output, Patches, Stack
from clearhead.positions import AbsolutePosition, NoPosition, scheme_for_heads
from clearhead.recipe import (
    AttentionSpec,
    CrossSpec,
    EmbeddingSpec,
    EncoderModelSpec,
    NormSpec,
    PatchesSpec,
    ResidualSpec,
    TransformerEncoderSpec,
    TransformerSpec,
    dropout_rate,
    module_of,
)


def make_stack(
    spec: TransformerSpec,
    *,
    tokens: nn.Embedding | Patches,
    embedding: EmbeddingSpec,
    causal: bool,
    cross: CrossSpec | None = None,
    memory_width: int | None = None,
) -> Stack:
    """Make an encoder, or with ``causal`` a decoder; ``cross`` adds cross-attention over a memory.

    Args:
        spec: the settings of the stack.
        tokens: the token embeddings, or the map from image patches to vectors.
        embedding: the recipe's ``[model.embedding]``.
        causal: whether later tokens are masked.
        cross: the settings of cross-attention. Default: none.
        memory_width: features of the memory. Default: the stack's own width.
    """
    absolute: AbsolutePosition = NoPosition()  # a relative scheme acts inside attention instead
    scheme = None
    schemes: list[Any] = [None] * spec.layers
    patches = tokens if isinstance(tokens, Patches) else None
    if spec.position.enters == "embedding":
        table = embedding.width or spec.width
        absolute = module_of(spec.position).from_spec(spec.position, width=table, **_where(spec, patches))
    elif spec.position.per_layer:
        schemes = [_scheme(spec, causal, patches) for _ in schemes]
    else:
        scheme = _scheme(spec, causal, patches)
        if (near := spec.position.in_windows()) != spec.position:  # layers with windows have a scheme of their own
            nearby = _scheme(spec.replaced(position=near), causal, patches)
            schemes = [nearby if spec.attention.sees_window(layer) else None for layer in range(1, spec.layers + 1)]
        if spec.position.per_head:  # layers without some of their heads need the biases of the others alone
            kept = [spec.attention.kept_in(layer) for layer in range(1, spec.layers + 1)]
            schemes = [None if heads is None else scheme_for_heads(scheme, heads) for heads in kept]
    layers = list(_layers(spec, schemes, cross=cross, memory_width=memory_width, patches=patches))
    return Stack(
        embedding=make_embedding(spec, tokens, embedding, absolute, make_ngrams(spec, tokens)),
        layers=_shared(layers) if spec.shared else layers,
        causal=causal,
        scheme=scheme,
        cross_scheme=None if cross is None else cross_scheme(cross, spec.width),
        final_norm=make_norm(spec.norm, spec.out_width) if spec.norm.has_final else None,
    )


def make_ngrams(spec: TransformerSpec, tokens: nn.Embedding | Patches) -> NgramEmbedding | None:
    """Make the table of n-grams, if the stack is an encoder that has one."""
    if not isinstance(spec, TransformerEncoderSpec) or not spec.ngrams.reach:
        return None
    ngrams = spec.ngrams.with_dropout(0.0)  # auto is resolved when training is prepared
    return NgramEmbedding(**ngrams.model_dump(), out_width=tokens.embedding_dim)


def make_embedding(
    spec: ResidualSpec,
    tokens: nn.Embedding | Patches,
    embedding: EmbeddingSpec,
    absolute: AbsolutePosition,
    ngrams: NgramEmbedding | None = None,
) -> Embedding:
    """Make the embedding of a stack: tokens, n-grams, positions and segments, perhaps normalised."""
    return Embedding(
        tokens,
        absolute,
        scaled=embedding.scale == "sqrt" and not isinstance(tokens, Patches),
        segments=embedding.segments,
        norm=make_norm(spec.norm, tokens.embedding_dim) if embedding.norm else None,
        dropout=dropout_rate(spec.dropout.embedding),
        project=nn.Linear(tokens.embedding_dim, spec.width) if tokens.embedding_dim != spec.width else None,
        ngrams=ngrams,
    )


def make_around(spec: ResidualSpec, out_width: int | None = None) -> AddNorm:
    """Make the Add & Norm around one sublayer; x is projected if the sublayer puts out another width."""
    out_width = out_width or spec.width
    return AddNorm(
        make_norm(spec.norm, out_width if spec.norm.place == "post" else spec.width),
        place=spec.norm.place,
        after=make_norm(spec.norm, out_width) if spec.norm.place == "both" else None,
        dropout=dropout_rate(spec.dropout.residual),
        residual=spec.residual,
        project=nn.Linear(spec.width, out_width, bias=False) if spec.residual and out_width != spec.width else None,
    )


class TransformerEncoder:
    """Builds the encoder of a Transformer, for the registry."""

    @classmethod
    def from_spec(cls, spec: TransformerSpec, *, tokens: nn.Embedding | Patches, embedding: EmbeddingSpec) -> Stack:
        """Build from a recipe."""
        return make_stack(spec, tokens=tokens, embedding=embedding, causal=False)


class TransformerDecoder:
    """Builds the decoder of a Transformer, for the registry."""

    @classmethod
    def from_spec(
        cls,
        spec: TransformerSpec,
        *,
        tokens: nn.Embedding,
        embedding: EmbeddingSpec,
        cross: CrossSpec | None,
        memory_width: int | None,
    ) -> Stack:
        """Build from a recipe; ``cross`` is None for a language model."""
        return make_stack(spec, tokens=tokens, embedding=embedding, causal=True, cross=cross, memory_width=memory_width)


def make_patches(spec: PatchesSpec, width: int) -> Patches:
    """Make the map from images to tokens of this width."""
    image = (spec.height, spec.width)
    return Patches(image=image, channels=spec.channels, size=spec.size, width=width, class_token=spec.class_token)


def make_output(spec: EmbeddingSpec, tokens: nn.Embedding, width: int) -> Output:
    """Make the output layer for vectors of this width, tied to ``tokens`` if the recipe says so."""
    tied = spec.tie in ("auto", "output", "all")
    weight = tokens.weight if tied else torch.empty(tokens.num_embeddings, width)
    return Output(weight, bias=spec.output_bias, scaled=spec.output_scale == "rsqrt", cap=spec.output_cap)


def make_transform(spec: EncoderModelSpec) -> HeadTransform | None:
    """Make the transform before the logits of masked tokens, with the encoder's kind of norm."""
    if spec.head_transform == "none" or not isinstance(spec.encoder, ResidualSpec):
        return None
    width, table = spec.encoder.width, spec.embedding.width or spec.encoder.width
    norm = make_norm(spec.encoder.norm, table)
    act, bias = spec.head_transform, spec.head_bias
    return HeadTransform(width=width, out_width=table, activation=act, norm=norm, bias=bias)


def _scheme(spec: TransformerSpec, causal: bool, patches: Patches | None) -> Any:
    head_size, value_size = spec.attention.sizes(spec.width)
    return module_of(spec.position).from_spec(
        spec.position,
        heads=spec.attention.heads,
        head_size=head_size,
        value_size=value_size,
        causal=causal,
        **_where(spec, patches),
    )


def cross_scheme(cross: CrossSpec, width: int) -> Any:
    """The relative positions between the tokens of a decoder of this width and those of its memory; perhaps None."""
    if cross.position.enters == "embedding":
        return None
    size, value_size = cross.attention.sizes(width)
    return module_of(cross.position).from_spec(
        cross.position, heads=cross.attention.heads, head_size=size, value_size=value_size, causal=False
    )


def _where(spec: TransformerSpec, patches: Patches | None) -> dict[str, Any]:
    """The arguments that only two-dimensional positions take."""
    if patches is None or not spec.position.planar:
        return {}
    return {"grid": patches.grid, "class_token": patches.class_token is not None}


def _layers(
    spec: TransformerSpec,
    schemes: list[Any],
    *,
    cross: CrossSpec | None,
    memory_width: int | None,
    patches: Patches | None,
) -> Iterator[Layer]:
    make_attention = attention_maker(spec, spec.attention, spec.width, patches)
    make_cross = None if cross is None else attention_maker(spec, cross.attention, memory_width or spec.width)
    for number, scheme in enumerate(schemes, start=1):
        last = number == len(schemes)
        net = spec.feedforward if last else spec.feedforward.replaced(out_width=None)
        around_attention, around_feedforward = make_around(spec), make_around(spec, net.out_width)
        if number == 1 and not spec.norm.first:
            around_attention.norm = NoNorm()
        if spec.parallel == "one-norm":
            around_feedforward.norm = around_attention.norm
        yield Layer(
            attention=make_attention(number),
            around_attention=around_attention,
            cross=None if make_cross is None else make_cross(number),
            around_cross=None if make_cross is None else make_around(spec),
            feedforward=module_of(net).from_spec(net, width=spec.width, dropout=spec.dropout.activation),
            around_feedforward=around_feedforward,
            scheme=scheme,
            parallel=spec.parallel != "no",
        )


def _shared(layers: list[Layer]) -> list[Layer]:
    """The layers with the weights of the first."""
    first, *others = layers
    for other in others:
        for place, module in other.named_modules():
            for name in list(module._parameters):
                setattr(module, name, getattr(first.get_submodule(place), name))
    return layers


def attention_maker(
    stack: ResidualSpec, spec: AttentionSpec, memory_width: int, patches: Patches | None = None
) -> Callable[[int], Any]:
    """A function that makes the attention of a layer, from 1; a ``shared_part`` is made once for all layers."""
    module = module_of(spec)
    sizes: dict[str, Any] = {
        "width": stack.width,
        "memory_width": memory_width,
        "dropout": stack.dropout.attention,
    }
    if patches is not None and spec.planar:
        sizes["grid"] = patches.grid
    if hasattr(module, "shared_part") and (shared := module.shared_part(spec, width=stack.width)) is not None:
        sizes["shared"] = shared

    def make(layer: int) -> Any:
        own = spec.in_layer(layer, stack.width)
        return module_of(own).from_spec(own, **sizes)

    return make


def make_norm(spec: NormSpec, width: int) -> Any:
    """Make a norm for tokens of this width."""
    return module_of(spec).from_spec(spec, width=width)
