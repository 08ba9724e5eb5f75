"""Vectors for the tokens around a token: what an n-gram model knows, added to the embeddings of an encoder.

A token alone says little where an alphabet is small: how a letter is spoken depends on the letters beside it. A layer
of attention has to learn to look there; a table of n-grams knows it after it has seen them. It costs a lookup and one
small map, whatever the number of its rows (hash embeddings: Clark et al. 2022, Pagnoni et al. 2024).

Shapes: b batch, n tokens, k n-grams around a token, w features of a row, d features of a token.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from clearhead.blocks.dropout import Dropout
from clearhead.constants import ngrams_within

_PRIME, _FACTOR = 2**31 - 1, 506_952_114
"""Of the hash: the factor is 2³²/φ modulo the prime, and their product fits into 64 bits."""


class NgramEmbedding(nn.Module):
    """W [t[h₁]; …; t[h_k]] for each token, where h_i is the row of the i-th n-gram that it is a part of.

    The n-grams are those that begin and end at most ``reach`` tokens away, k = (reach + 1)² − 1 of them. Rows are found
    by a hash, so that n-grams may share one, and those that were never seen have one too. Padding, and what lies beyond
    both ends, count as the same token, which no line contains.

    Args:
        reach: how far n-grams reach to either side of a token.
        buckets: rows of the table for each of the k.
        width: features of a row.
        out_width: features of a token, d.
        dropout: probability of dropping a whole row during training, as if its n-gram were unknown. Default: 0.
    """

    def __init__(self, *, reach: int, buckets: int, width: int, out_width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.reach, self.buckets = reach, buckets
        count = ngrams_within(reach)
        self.table = nn.Embedding(count * buckets, width)
        self.project = nn.Linear(count * width, out_width, bias=False)
        self.drop = Dropout(dropout)

    def extra_repr(self) -> str:
        return f"up to {self.reach} tokens to either side, {self.buckets:,} rows each"

    def rows(self, ids: Int[Tensor, "b n"], valid: Bool[Tensor, "b n"] | None = None) -> Int[Tensor, "b n k"]:
        """The row of each n-gram in the table, whose parts for the k stand one after the other."""
        known = ids + 1 if valid is None else (ids + 1) * valid  # 0 stands for what is no token
        n, reach = ids.shape[1], self.reach
        around = F.pad(known, (reach, reach))  # (b, n + 2·reach)
        found: list[Tensor] = []
        for left in range(reach + 1):
            hashed = torch.zeros_like(known)
            for offset in range(-left, reach + 1):
                hashed = (hashed * _FACTOR + around[:, reach + offset : reach + offset + n]) % _PRIME
                if offset >= 0 and (left or offset):  # the token alone has a table of its own
                    found.append(hashed * _FACTOR % _PRIME % self.buckets + len(found) * self.buckets)
        return torch.stack(found, dim=-1)

    def forward(self, ids: Int[Tensor, "b n"], valid: Bool[Tensor, "b n"] | None = None) -> Float[Tensor, "b n d"]:
        """A vector for the surroundings of each token; ``valid`` is False for padding. Default: no padding."""
        rows: Tensor = self.table(self.rows(ids, valid))  # (b, n, k, w)
        if self.training and self.drop.p:
            rows = rows * self.drop(rows.new_ones(rows.shape[:3])).unsqueeze(-1)
        found: Tensor = self.project(rows.flatten(2))  # (b, n, d)
        return found
