"""From token ids, or the patches of an image, to vectors (L1.4, step 1).

Shapes: b batch, n tokens, d features.
"""

import math

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from clearhead.blocks.dropout import Dropout
from clearhead.blocks.ngrams import NgramEmbedding
from clearhead.blocks.patches import Patches
from clearhead.positions import AbsolutePosition


class Embedding(nn.Module):
    """drop(norm(scale · (tokens[id] + n-grams) + position + segment)), perhaps mapped to another width.

    Args:
        tokens: the token embeddings, (V, d), or the map from image patches to vectors.
        position: the absolute positions; ``NoPosition()`` for none.
        scaled: whether token embeddings are multiplied by √d. Default: False.
        segments: the number of segments (BERT's token types); 0, the default, for none.
        norm: the norm after the sum. Default: none.
        dropout: probability of dropping an entry during training. Default: 0.
        project: a map to the width of the layers, if the tables have another one. Default: none.
        ngrams: vectors for the tokens around each token. Default: none.
    """

    def __init__(
        self,
        tokens: nn.Embedding | Patches,
        position: AbsolutePosition,
        *,
        scaled: bool = False,
        segments: int = 0,
        norm: nn.Module | None = None,
        dropout: float = 0.0,
        project: nn.Linear | None = None,
        ngrams: NgramEmbedding | None = None,
    ) -> None:
        super().__init__()
        self.tokens, self.position, self.norm = tokens, position, norm
        self.scale = math.sqrt(tokens.embedding_dim) if scaled else 1.0
        self.segments = nn.Embedding(segments, tokens.embedding_dim) if segments else None
        self.drop, self.project, self.ngrams = Dropout(dropout), project, ngrams

    def extra_repr(self) -> str:
        return "tokens · √d" if self.scale != 1.0 else ""

    def length(self, inputs: Int[Tensor, "b n"] | Float[Tensor, "b height width channels"]) -> int:
        """The number of tokens of each line or image."""
        return self.tokens.length if isinstance(self.tokens, Patches) else inputs.shape[1]

    def forward(
        self,
        inputs: Int[Tensor, "b n"] | Float[Tensor, "b height width channels"],
        positions: Int[Tensor, "n"] | Int[Tensor, "b n"],
        end: int,
        segments: Int[Tensor, "b n"] | None = None,
        valid: Bool[Tensor, "b n"] | None = None,
    ) -> Float[Tensor, "b n d"]:
        """Embed tokens.

        Args:
            inputs: token ids, or the pixels of images.
            positions: the position of each token.
            end: a number above all positions.
            segments: the segment of each token. Default: the first one.
            valid: True for tokens, False for padding.
        """
        x: Tensor = self.tokens(inputs)
        if self.ngrams is not None:
            x = x + self.ngrams(inputs, valid)
        if self.scale != 1.0:
            x = x * self.scale
        where = self.position(positions, end)
        if where is not None:
            x = x + where
        if self.segments is not None:
            x = x + (self.segments.weight[0] if segments is None else self.segments(segments))
        if self.norm is not None:
            x = self.norm(x, valid)
        dropped: Tensor = self.drop(x)
        return dropped if self.project is None else self.project(dropped)
