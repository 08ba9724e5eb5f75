"""The building blocks around attention: norms, feed-forward, Add & Norm, embeddings, layers, recurrent stacks."""

from clearhead.blocks.alignment import Alignment, BahdanauAlignment, LuongAlignment, NoAlignment, StateAttention
from clearhead.blocks.convolution import Convolution, ConvolutionLayer
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
from clearhead.blocks.ngrams import NgramEmbedding
from clearhead.blocks.norm import LayerNorm, NoNorm, RmsNorm
from clearhead.blocks.output import HeadTransform, Output
from clearhead.blocks.patches import Patches
from clearhead.blocks.recurrence import Recurrence
from clearhead.blocks.recurrent import BothWays, RecurrentCache, RecurrentDecoder, RecurrentEncoder
from clearhead.blocks.residual import AddNorm
from clearhead.blocks.stack import Decoder, DecoderCache, Memory, Stack

__all__ = [
    "AddNorm",
    "Alignment",
    "BahdanauAlignment",
    "BothWays",
    "Convolution",
    "ConvolutionLayer",
    "Decoder",
    "DecoderCache",
    "Dropout",
    "Embedding",
    "FeedForward",
    "GatedFeedForward",
    "HeadTransform",
    "Layer",
    "LayerNorm",
    "LuongAlignment",
    "Memory",
    "NgramEmbedding",
    "NoAlignment",
    "NoNorm",
    "OuterFeedForward",
    "Output",
    "Patches",
    "Recurrence",
    "RecurrentCache",
    "RecurrentDecoder",
    "RecurrentEncoder",
    "RmsNorm",
    "SingleFeedForward",
    "Stack",
    "StandardFeedForward",
    "StateAttention",
]
