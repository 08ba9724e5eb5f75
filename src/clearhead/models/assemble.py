"""The one place that reads a recipe's stacks and puts their parts together."""

from typing import Any

import torch
from torch import nn

from clearhead.blocks import AddNorm, Embedding, Layer, Output, Stack
from clearhead.positions import AbsolutePosition, NoPosition
from clearhead.recipe import AttentionSpec, NormSpec, dropout_rate, module_of
from clearhead.recipe import Embedding as EmbeddingSpec
from clearhead.recipe import Stack as StackSpec


def make_stack(
    spec: StackSpec,
    *,
    tokens: nn.Embedding,
    embedding: EmbeddingSpec,
    causal: bool,
    cross: AttentionSpec | None = None,
    memory_width: int | None = None,
) -> Stack:
    """An encoder, or with ``causal`` a decoder; with ``cross`` one that looks at a memory."""
    absolute: AbsolutePosition = NoPosition()  # a relative scheme acts inside attention instead
    scheme = None
    if spec.position.enters == "embedding":
        absolute = module_of(spec.position).from_spec(spec.position, width=spec.width)
    else:
        head_size, _ = spec.attention.sizes(spec.width)
        scheme = module_of(spec.position).from_spec(
            spec.position, heads=spec.attention.heads, head_size=head_size, causal=causal
        )
    return Stack(
        embedding=Embedding(
            tokens,
            absolute,
            scaled=embedding.scale == "sqrt",
            segments=embedding.segments,
            norm=_norm(spec.norm, spec.width) if embedding.norm else None,
            dropout=dropout_rate(spec.dropout.embedding),
        ),
        layers=[_layer(spec, cross=cross, memory_width=memory_width) for _ in range(spec.layers)],
        causal=causal,
        scheme=scheme,
        final_norm=_norm(spec.norm, spec.width) if spec.norm.has_final else None,
    )


class TransformerEncoder:
    """What the registry builds a Transformer's encoder with."""

    @classmethod
    def from_spec(cls, spec: StackSpec, *, tokens: nn.Embedding, embedding: EmbeddingSpec) -> Stack:
        """Build from a recipe."""
        return make_stack(spec, tokens=tokens, embedding=embedding, causal=False)


class TransformerDecoder:
    """What the registry builds a Transformer's decoder with."""

    @classmethod
    def from_spec(
        cls,
        spec: StackSpec,
        *,
        tokens: nn.Embedding,
        embedding: EmbeddingSpec,
        cross: AttentionSpec | None,
        memory_width: int | None,
    ) -> Stack:
        """Build from a recipe; without ``cross`` for a language model."""
        return make_stack(spec, tokens=tokens, embedding=embedding, causal=True, cross=cross, memory_width=memory_width)


def make_output(spec: EmbeddingSpec, tokens: nn.Embedding) -> Output:
    """The map to logits, tied to ``tokens`` if the recipe says so."""
    tied = spec.tie in ("auto", "output", "all")
    weight = tokens.weight if tied else torch.empty(tokens.num_embeddings, tokens.embedding_dim)
    return Output(weight, bias=spec.output_bias, scaled=spec.output_scale == "rsqrt")


def _layer(spec: StackSpec, *, cross: AttentionSpec | None, memory_width: int | None) -> Layer:
    def around() -> AddNorm:
        norm = _norm(spec.norm, spec.width)
        rate = dropout_rate(spec.dropout.residual)
        return AddNorm(norm, place=spec.norm.place, dropout=rate, residual=spec.residual)

    def attention(kind: AttentionSpec, width: int) -> Any:
        return module_of(kind).from_spec(kind, width=spec.width, memory_width=width, dropout=spec.dropout.attention)

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
