"""The parts of a Transformer around its attention: norms, feed-forward nets, Add & Norm, embeddings, layers."""

from clearhead.blocks.dropout import Dropout
from clearhead.blocks.embedding import Embedding
from clearhead.blocks.feedforward import (
    FeedForward,
    GatedFeedForward,
    OuterFeedForward,
    SingleFeedForward,
    StandardFeedForward,
)
from clearhead.blocks.layer import Layer
from clearhead.blocks.norm import LayerNorm, RmsNorm
from clearhead.blocks.output import Output
from clearhead.blocks.patches import Patches
from clearhead.blocks.residual import AddNorm
from clearhead.blocks.stack import Memory, Stack

__all__ = [
    "AddNorm",
    "Dropout",
    "Embedding",
    "FeedForward",
    "GatedFeedForward",
    "Layer",
    "LayerNorm",
    "Memory",
    "OuterFeedForward",
    "Output",
    "Patches",
    "RmsNorm",
    "SingleFeedForward",
    "Stack",
    "StandardFeedForward",
]
