"""Encoders of texts or images, with heads for masked tokens and for classes.

Shapes: b batch, n tokens, d features, c classes.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from clearhead.blocks import Dropout, Output
from clearhead.models.assemble import make_patches, make_transform
from clearhead.models.base import Model
from clearhead.recipe import ClassifierSpec, EncoderModelSpec, module_of

Pixels = Float[Tensor, "b height width channels"]


class EncoderModel(Model):
    """An encoder of texts or images, optionally with a pooler, tanh(W x₀ + b) of the first token (BERT).

    Args:
        spec: the settings of the model.
        encoder: the stack.
    """

    spec: EncoderModelSpec

    def __init__(self, spec: EncoderModelSpec, *, encoder: nn.Module) -> None:
        super().__init__()
        self.spec, self.encoder = spec, encoder
        width = spec.encoder.out_width
        self.pooler = nn.Linear(width, width) if spec.pooler else None
        self.output: Output | None = None
        """Predicts masked tokens, with ``head = "tokens"``; tied to the embedding."""
        if spec.head == "tokens":
            tokens = encoder.get_submodule("embedding.tokens")
            assert isinstance(tokens, nn.Embedding)  # the recipe refuses a head over patches
            self.output = Output(tokens.weight, bias=True, transform=make_transform(spec))

    @classmethod
    def from_spec(cls, spec: EncoderModelSpec) -> "EncoderModel":
        """Build from a recipe."""
        width, patches = spec.encoder.width, spec.patches
        narrow = spec.embedding.width or width
        tokens = nn.Embedding(spec.vocabulary.source, narrow) if patches is None else make_patches(patches, width)
        make = module_of(spec.encoder).from_spec
        return cls(spec, encoder=make(spec.encoder, tokens=tokens, embedding=spec.embedding))

    def valid_tokens(self, ids: Int[Tensor, "b n"] | Pixels) -> Bool[Tensor, "b n"] | None:
        return super().valid_tokens(ids) if self.spec.patches is None else None

    def states(
        self,
        inputs: Int[Tensor, "b n"] | Pixels,
        valid: Bool[Tensor, "b n"] | None = None,
        segments: Int[Tensor, "b n"] | None = None,
    ) -> Float[Tensor, "b n d"]:
        """Return a vector for every token.

        Args:
            inputs: token ids, or the pixels of images.
            valid: True for tokens, False for padding. Default: everything except the recipe's ``pad``.
            segments: the segment of each token (BERT's token types). Default: the first one.
        """
        valid = self.valid_tokens(inputs) if valid is None else valid
        states: Tensor = self.encoder(inputs, valid, segments=segments)
        return states

    def pool(self, states: Float[Tensor, "b n d"], valid: Bool[Tensor, "b n"] | None = None) -> Float[Tensor, "b d"]:
        """Return one vector for each sequence, from its first token that is not padding."""
        rows = torch.arange(states.shape[0], device=states.device)
        first = states[:, 0] if valid is None else states[rows, valid.int().argmax(1)]
        return first if self.pooler is None else torch.tanh(self.pooler(first))

    def forward(
        self,
        inputs: Int[Tensor, "b n"] | Pixels,
        valid: Bool[Tensor, "b n"] | None = None,
        segments: Int[Tensor, "b n"] | None = None,
    ) -> Float[Tensor, "b n d"]:
        """Return a vector for every token; the arguments of ``states``."""
        return self.states(inputs, valid, segments)


class ClassifierModel(EncoderModel):
    """An encoder with a linear classifier on its pooled output.

    Args:
        spec: the settings of the model.
        encoder: the stack.
    """

    spec: ClassifierSpec

    def __init__(self, spec: ClassifierSpec, *, encoder: nn.Module) -> None:
        super().__init__(spec, encoder=encoder)
        self.drop = Dropout(spec.head_dropout)
        self.head = nn.Linear(spec.encoder.out_width, spec.classes)

    def forward(
        self,
        inputs: Int[Tensor, "b n"] | Pixels,
        valid: Bool[Tensor, "b n"] | None = None,
        segments: Int[Tensor, "b n"] | None = None,
    ) -> Float[Tensor, "b c"]:
        """Return a logit for every class; the arguments of ``states``."""
        valid = self.valid_tokens(inputs) if valid is None else valid
        states = self.states(inputs, valid, segments)
        if self.spec.pooling == "first":
            pooled = self.pool(states, valid)
        elif valid is None:
            pooled = states.mean(1)
        else:
            weight = valid.unsqueeze(-1).to(states.dtype)  # (b, n, 1)
            pooled = (states * weight).sum(1) / weight.sum(1).clamp(min=1)
        logits: Tensor = self.head(self.drop(pooled))
        return logits
