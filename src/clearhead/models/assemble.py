"""The one place that reads a recipe's stacks and puts their parts together."""

from typing import Any

import torch
from torch import nn

from clearhead.blocks import AddNorm, Embedding, Layer, Output, Patches, Stack
from clearhead.positions import AbsolutePosition, NoPosition
from clearhead.recipe import AttentionSpec, NormSpec, dropout_rate, module_of
from clearhead.recipe import Embedding as EmbeddingSpec
from clearhead.recipe import Patches as PatchesSpec
from clearhead.recipe import Stack as StackSpec


def make_stack(
    spec: StackSpec,
    *,
    tokens: nn.Embedding | Patches,
    embedding: EmbeddingSpec,
    causal: bool,
    cross: AttentionSpec | None = None,
    memory_width: int | None = None,
) -> Stack:
    """An encoder, or with ``causal`` a decoder; with ``cross`` one that looks at a memory."""
    grid = tokens.grid if isinstance(tokens, Patches) else None
    absolute: AbsolutePosition = NoPosition()  # a relative scheme acts inside attention instead
    scheme = None
    where: dict[str, Any] = {}
    if spec.position.planar and isinstance(tokens, Patches):
        where = {"grid": tokens.grid, "class_token": tokens.class_token is not None}
    if spec.position.enters == "embedding":
        absolute = module_of(spec.position).from_spec(spec.position, width=spec.width, **where)
    else:
        head_size, _ = spec.attention.sizes(spec.width)
        scheme = module_of(spec.position).from_spec(
            spec.position, heads=spec.attention.heads, head_size=head_size, causal=causal, **where
        )
    return Stack(
        embedding=Embedding(
            tokens,
            absolute,
            scaled=embedding.scale == "sqrt" and isinstance(tokens, nn.Embedding),
            segments=embedding.segments,
            norm=_norm(spec.norm, spec.width) if embedding.norm else None,
            dropout=dropout_rate(spec.dropout.embedding),
        ),
        layers=[_layer(spec, cross=cross, memory_width=memory_width, grid=grid) for _ in range(spec.layers)],
        causal=causal,
        scheme=scheme,
        final_norm=_norm(spec.norm, spec.width) if spec.norm.has_final else None,
    )


def make_patches(spec: PatchesSpec, width: int) -> Patches:
    """The map from an image to tokens of this width."""
    image = (spec.height, spec.width)
    return Patches(image=image, channels=spec.channels, size=spec.size, width=width, class_token=spec.class_token)


def make_output(spec: EmbeddingSpec, tokens: nn.Embedding) -> Output:
    """The map to logits, tied to ``tokens`` if the recipe says so."""
    tied = spec.tie in ("auto", "output", "all")
    weight = tokens.weight if tied else torch.empty(tokens.num_embeddings, tokens.embedding_dim)
    return Output(weight, bias=spec.output_bias, scaled=spec.output_scale == "rsqrt")


def _layer(
    spec: StackSpec, *, cross: AttentionSpec | None, memory_width: int | None, grid: tuple[int, int] | None
) -> Layer:
    def around() -> AddNorm:
        norm = _norm(spec.norm, spec.width)
        rate = dropout_rate(spec.dropout.residual)
        return AddNorm(norm, place=spec.norm.place, dropout=rate, residual=spec.residual)

    def attention(kind: AttentionSpec, width: int) -> Any:
        sizes = {"width": spec.width, "memory_width": width, "dropout": spec.dropout.attention}
        return module_of(kind).from_spec(kind, **sizes, **({"grid": grid} if kind.planar else {}))

    return Layer(
        attention=attention(spec.attention, spec.width),
        around_attention=around(),
        cross=None if cross is None else attention(cross, memory_width or spec.width),
        around_cross=None if cross is None else around(),
        feedforward=module_of(spec.feedforward).from_spec(
            spec.feedforward, width=spec.width, dropout=spec.dropout.activation
        ),
        around_feedforward=around(),
    )


def _norm(spec: NormSpec, width: int) -> Any:
    return module_of(spec).from_spec(spec, width=width)
