"""Disentangled attention (L4.9): content and position have separate vectors and score terms (DeBERTa).

Shapes: b batch, n queries, m keys, h heads, d features of a token, q and e features of a query and of a value in one
head, R rows of the table.
"""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from clearhead.attention.blockwise import Distances, attend_by_distance
from clearhead.attention.cache import KeyValues, remembered
from clearhead.attention.choice import Choice, check_choice, choose
from clearhead.attention.context import AttentionContext
from clearhead.attention.heads import Heads
from clearhead.attention.paths import MANY_DISENTANGLED_KEYS, MANY_TO_LEARN_FROM, works_in_blocks
from clearhead.attention.score import DotScore
from clearhead.positions import is_exporting, may_branch
from clearhead.recipe import DisentangledSpec

Term = Literal["c2c", "c2p", "p2c"]


def log_bucket(distance: Int[Tensor, "*shape"], buckets: int, span: int) -> Int[Tensor, "*shape"]:
    """DeBERTa v2's bucket of a distance: itself up to half of the buckets, then logarithmic up to ``span``."""
    half = buckets // 2
    away = torch.where(distance.abs() < half, half - 1, distance.abs())
    growth = (away / half).log() / math.log((span - 1) / half)
    far = (growth * (half - 1)).ceil() + half
    return torch.where(away <= half, distance, (far * distance.sign()).long())


class RelativeTable(nn.Module):
    """A vector for every distance, or bucket of distances, shared by all layers of a stack.

    Distance r has row clip(r + k, 0, 2k − 1), with k = ``span``. With ``buckets``, far distances share rows (v2).

    Args:
        width: features of a vector, d.
        span: the largest distance that is told apart.
        buckets: buckets for the distances on each side. Default: one row for every distance.
        normalised: whether a LayerNorm follows. Default: False.
    """

    def __init__(self, *, width: int, span: int, buckets: int | None = None, normalised: bool = False) -> None:
        super().__init__()
        self.span, self.buckets = span, buckets
        self.table = nn.Embedding(2 * (buckets or span), width)
        self.norm = nn.LayerNorm(width, eps=1e-7) if normalised else None

    def extra_repr(self) -> str:
        return f"distances up to {self.span}" + (f" in {self.buckets} buckets" if self.buckets else "")

    def row(self, distance: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        """The row of a distance i − j: δ(i, j) of the paper."""
        if self.buckets is not None:
            distance = log_bucket(distance, self.buckets, self.span)
        half = len(self.table.weight) // 2
        return (distance + half).clamp(0, 2 * half - 1)

    def rows_within(self, length: int) -> slice:
        """The rows that occur in sequences of this length; only these need to be projected."""
        half = len(self.table.weight) // 2
        reach = half if self.buckets is not None else min(length, half)
        return slice(half - reach, half + reach)

    def forward(self, rows: slice) -> Float[Tensor, "R d"]:
        """Return the vectors of these rows."""
        vectors = self.table.weight[rows]
        return vectors if self.norm is None else self.norm(vectors)


class DisentangledAttention(Heads):
    """(Q_i·K_j + Q_i·K^r_δ(i,j) + K_j·Q^r_δ(i,j))/√(3d): content to content, content to position, and back (L4.9).

    Args:
        width: features of a token, d.
        heads: number of heads, h.
        shared: the table of relative positions, one for all layers of a stack.
        terms: the terms of the score, ``c2c``, ``c2p`` and ``p2c``; their number is the 3 of √(3d). Default: all.
        p2c_index: the index of the last term: ``released`` is δ(i, j), as in every released model (the default),
            ``paper`` is δ(j, i).
        shared_projections: whether W_Q and W_K also project the table. Default: it has its own projections.
        choice: ``soft`` (the default) or ``hard``.
        query_size: features of a query and of a key in one head, q. Default: width / heads.
        value_size: features of a value in one head, e. Default: width / heads.
        bias: whether the projections have biases. Default: True.
        memory_width: features of the tokens that keys and values come from. Default: width.
        dropout: probability of dropping an attention weight during training. Default: 0.
    """

    def __init__(
        self,
        *,
        width: int,
        heads: int,
        shared: RelativeTable,
        terms: Sequence[Term] = ("c2c", "c2p", "p2c"),
        p2c_index: Literal["released", "paper"] = "released",
        shared_projections: bool = False,
        choice: Choice = "soft",
        query_size: int | None = None,
        value_size: int | None = None,
        bias: bool = True,
        memory_width: int | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(
            width=width,
            heads=heads,
            query_size=query_size,
            value_size=value_size,
            memory_width=memory_width,
            bias=bias,
            dropout=dropout,
        )
        self.terms, self.p2c_index, self.choice = tuple(sorted(set(terms))), p2c_index, check_choice(choice)
        self.scale = math.sqrt(len(self.terms) * self.query_size)
        self.score = DotScore()
        self.cap: float | None = None
        self.places = shared
        own, size = not shared_projections, heads * self.query_size
        self.place_key = nn.Linear(width, size, bias=bias) if own and "c2p" in terms else None
        self.place_query = nn.Linear(width, size, bias=bias) if own and "p2c" in terms else None

    @classmethod
    def from_spec(
        cls, spec: DisentangledSpec, *, width: int, memory_width: int, dropout: float, shared: RelativeTable
    ) -> "DisentangledAttention":
        """Build from a recipe; ``shared`` is what ``shared_part`` returned for the stack."""
        settings = spec.model_dump(exclude={"kind", "kept", "span", "buckets", "normalised"})
        return cls(width=width, memory_width=memory_width, dropout=dropout, shared=shared, **settings)

    @staticmethod
    def shared_part(spec: DisentangledSpec, *, width: int) -> RelativeTable:
        """Make the table of relative positions that all layers of a stack share."""
        return RelativeTable(width=width, span=spec.span, buckets=spec.buckets, normalised=spec.normalised)

    def extra_repr(self) -> str:
        return f"{self.heads} heads, {self.choice}, {' + '.join(self.terms)}"

    def forward(
        self,
        tokens: Float[Tensor, "b n d"],
        memory: Float[Tensor, "b m k"] | None = None,
        *,
        context: AttentionContext | None = None,
        cache: KeyValues | None = None,
    ) -> Float[Tensor, "b n d"]:
        """Compute self-attention or cross-attention over ``memory``; arguments as in ``MultiHeadAttention.forward``."""
        context = context or AttentionContext()
        seen = tokens if memory is None else memory
        keys, values = remembered(cache, lambda: self.candidates(seen), fixed=memory is not None)
        return self.join(self._attend(self.queries(tokens), keys, values, context, cache))

    def _attend(
        self,
        query: Float[Tensor, "b h n q"],
        keys: Float[Tensor, "b h m q"],
        values: Float[Tensor, "b h m e"],
        context: AttentionContext,
        cache: KeyValues | None,
    ) -> Float[Tensor, "b h n e"]:
        n, m = query.shape[2], keys.shape[2]
        rows, columns = context.queries, context.keys
        if rows is None or columns is None:
            rows, columns = torch.arange(m - n, m, device=query.device), torch.arange(m, device=query.device)
        many = MANY_TO_LEARN_FROM if torch.is_grad_enabled() else MANY_DISENTANGLED_KEYS
        if rows.dim() == 1 and works_in_blocks(self, n, m, many):
            return self._blockwise(query, keys, values, context, int(rows[0] - columns[0]))
        scores = self._scores(query, keys, rows, columns, cache) / self.scale
        weights = choose(scores, context.mask(n, m, query.device), self.choice)
        heads: Tensor = self.drop(self.weights(weights)) @ values
        return heads

    def _scores(
        self,
        query: Float[Tensor, "b h n q"],
        keys: Float[Tensor, "b h m q"],
        rows: Int[Tensor, "*r n"],
        columns: Int[Tensor, "*c m"],
        cache: KeyValues | None,
    ) -> Float[Tensor, "b h n m"]:
        """The sum of the terms, unscaled, for every query and key."""
        distance = rows.unsqueeze(-1) - columns.unsqueeze(-2)  # (*b, n, m)
        if cache is None and may_branch(rows):
            kept = self.places.rows_within(max(int(rows.max()), int(columns.max())) + 1)
        else:  # every row, for lines of any length
            kept = slice(None)
        to_place, from_place = self._projected(kept, cache)  # (h, R, q)
        where = self.places.row(distance) - (kept.start or 0)
        back = where if self.p2c_index == "released" else self.places.row(-distance) - (kept.start or 0)
        terms = [query @ keys.mT] if "c2c" in self.terms else []
        # a decoding step: each key needs one row of each table
        if distance.dim() == 2 and query.shape[2] == 1 and not is_exporting():
            if to_place is not None:
                terms.append(query @ to_place[:, where[0]].mT)
            if from_place is not None:
                terms.append((keys * from_place[:, back[0]]).sum(-1).unsqueeze(-2))
            return sum(terms[1:], terms[0])
        if to_place is not None:
            terms.append(_take(query @ to_place.mT, where))
        if from_place is not None:
            terms.append(_take(keys @ from_place.mT, back.mT).mT)
        return sum(terms[1:], terms[0])

    def _projected(self, rows: slice, cache: KeyValues | None) -> tuple[Tensor | None, Tensor | None]:
        """K^r and Q^r, (h, R, q) each; with a cache they are projected once."""
        if cache is not None and "places" in cache.kept:
            kept: tuple[Tensor | None, Tensor | None] = cache.kept["places"]
            return kept
        vectors = self.places(rows)
        maps = (self.place_key or self.key, "c2p"), (self.place_query or self.query, "p2c")
        to_place, from_place = (
            part(vectors).view(len(vectors), self.heads, -1).transpose(0, 1) if term in self.terms else None
            for part, term in maps
        )
        if cache is not None:
            cache.kept["places"] = (to_place, from_place)
        return to_place, from_place

    def _blockwise(
        self,
        query: Float[Tensor, "b h n q"],
        keys: Float[Tensor, "b h m q"],
        values: Float[Tensor, "b h m e"],
        context: AttentionContext,
        offset: int,
    ) -> Float[Tensor, "b h n e"]:
        """The same without storing n×m scores."""
        n, m = query.shape[2], keys.shape[2]
        span = self.places.span
        distances = Distances(max(-span, offset - m + 1), min(span, offset + n - 1))
        kept = self.places.rows_within(max(offset + n, m))
        to_place, from_place = self._projected(kept, None)
        every = distances.all(query.device).clamp(distances.lowest, distances.highest)
        where = self.places.row(every) - kept.start
        back = where if self.p2c_index == "released" else self.places.row(-every) - kept.start
        return attend_by_distance(
            query,
            keys,
            values,
            key_table=None if to_place is None else to_place[:, where],
            query_table=None if from_place is None else from_place[:, back],
            distances=distances,
            content="c2c" in self.terms,
            scale=self.scale,
            offset=offset,
            causal=context.causal,
            valid=context.valid,
        )


def _take(products: Float[Tensor, "b h n R"], index: Int[Tensor, "..."]) -> Float[Tensor, "b h n m"]:
    """Gather from each row of products by an index of shape (n, m) or (b, n, m)."""
    index = index.unsqueeze(-3)  # the same for all heads
    return products.gather(-1, index.expand(*products.shape[:2], *index.shape[-2:]))
