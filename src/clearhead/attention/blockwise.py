"""Attention with position terms, computed for a block of queries at a time, so that n×m scores are never stored.

    score(i, j) = [q_i·k_j] + q_i·a_{i−j} + k_j·c_{i−j} + b_{i−j}
    output_i = Σ_j α_ij (v_j + e_{i−j}),   each term if its table is given

For a block of queries, q·aᵀ has one column for each distance, and the term of key j is in column i − j. The next key is
in the next column, and the next query shifts all columns by one: both are strides. So the term is a strided *view* of
the product and is added to the scores without a gather. The same holds for k·cᵀ, read along the other axis. Distances
beyond a limit share a vector, hence a column. b is the same for all queries. For e, the weights are written through the
same view, which sums them by distance.

The backward pass recomputes the scores from the inputs, the outputs and one number for each query.

Shapes: b batch, n queries, m keys, h heads, d features of a query, e features of a value, w distances.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from clearhead.constants import BLOCK


@dataclass(frozen=True)
class Distances:
    """The distances i − j that have a column in the tables: all from ``low`` to ``high``.

    The tables extend one block beyond the limits, as a block may contain keys on both sides of a limit.
    """

    lowest: int
    """All distances up to this one share a vector, or do not occur."""
    highest: int
    """All distances from this one on share a vector, or do not occur."""

    @property
    def low(self) -> int:
        """The distance of the first column."""
        return self.lowest - BLOCK

    @property
    def high(self) -> int:
        """The distance of the last column."""
        return self.highest + BLOCK

    def all(self, device: torch.device | None = None) -> Tensor:
        """All distances that have a column."""
        return torch.arange(self.low, self.high + 1, device=device)


@dataclass(frozen=True)
class _Block:
    """A block of queries, and where its terms are in the products with the tables."""

    first: int
    last: int
    position: int
    """The position of the first query; key j is at position j."""
    keys: int
    """The number of keys that any query of the block may attend to."""
    distances: Distances

    @property
    def left(self) -> int:
        """Keys before this one are at distances above ``highest`` from every query of the block."""
        return min(max(self.position - self.distances.highest, 0), self.keys)

    @property
    def right(self) -> int:
        """Keys from this one on are at distances below ``lowest`` from every query of the block."""
        return min(max(self.position + self.last - self.first - 1 - self.distances.lowest, self.left), self.keys)

    def of_queries(self, products: Float[Tensor, "b i w"]) -> Float[Tensor, "b i j"]:
        """View q·aᵀ, whose columns run from the highest distance to the lowest, by keys from ``left`` to ``right``."""
        batch, rows, width = products.shape
        start = self.left + self.distances.high - self.position
        return products.as_strided(
            (batch, rows, self.right - self.left),
            (rows * width, width - 1, 1),
            products.storage_offset() + start,
        )

    def of_keys(self, products: Float[Tensor, "b m w"]) -> Float[Tensor, "b i j"]:
        """View k·cᵀ, whose columns run from the lowest distance to the highest, by keys from ``left`` to ``right``."""
        batch, rows, width = products.shape
        start = self.left * (width - 1) + self.position - self.distances.low
        return products.as_strided(
            (batch, self.last - self.first, self.right - self.left),
            (rows * width, 1, width - 1),
            products.storage_offset() + start,
        )

    def spread(self, products: Float[Tensor, "b i w"], pairs: Float[Tensor, "b i m"]) -> None:
        """Add to every pair of a query and a key the product in the column of their distance."""
        far, near = self.columns_of_queries()
        pairs[..., : self.left] += products[..., far : far + 1]
        pairs[..., self.left : self.right] += self.of_queries(products)
        pairs[..., self.right :] += products[..., near : near + 1]

    def collect(self, pairs: Float[Tensor, "b i m"], sums: Float[Tensor, "b i w"]) -> Float[Tensor, "b i w"]:
        """The reverse of ``spread``: overwrite ``sums`` with the sum of all pairs of each distance."""
        sums.zero_()
        far, near = self.columns_of_queries()
        self.of_queries(sums).copy_(pairs[..., self.left : self.right])
        sums[..., far] += pairs[..., : self.left].sum(-1)
        sums[..., near] += pairs[..., self.right :].sum(-1)
        return sums

    def columns_of_queries(self) -> tuple[int, int]:
        """The columns of q·aᵀ for all distances from ``highest`` up, and for all from ``lowest`` down."""
        return self.distances.high - self.distances.highest, self.distances.high - self.distances.lowest

    def columns_of_keys(self) -> tuple[int, int]:
        """The same columns of k·cᵀ."""
        return self.distances.highest - self.distances.low, self.distances.lowest - self.distances.low


def attend_by_distance(
    query: Float[Tensor, "b h n d"],
    keys: Float[Tensor, "b h m d"],
    values: Float[Tensor, "b h m e"],
    *,
    key_table: Float[Tensor, "#h w d"] | None = None,
    query_table: Float[Tensor, "#h w d"] | None = None,
    value_table: Float[Tensor, "#h w e"] | None = None,
    bias: Float[Tensor, "#h w"] | None = None,
    distances: Distances,
    content: bool = True,
    scale: float = 1.0,
    offset: int = 0,
    causal: bool = False,
    valid: Bool[Tensor, "b m"] | None = None,
) -> Float[Tensor, "b h n e"]:
    """softmax(score/scale)(V + position terms), with the scores of this module's docstring.

    Args:
        query: the queries; query i is at position ``offset`` + i.
        keys: the keys; key j is at position j.
        values: the values.
        key_table: a, multiplied with queries. Row r of each table is for distance ``distances.low`` + r; a table with
            one head serves all heads.
        query_table: c, multiplied with keys.
        value_table: e, added to values.
        bias: b, added to scores.
        distances: the distances that the tables have.
        content: whether q·k is part of the score.
        scale: what scores are divided by.
        offset: the position of the first query.
        causal: whether later keys are masked.
        valid: True for keys, False for padding.

    A query that may attend to no key gets 0.
    """
    reversed_table, reversed_values, reversed_bias = (
        None if table is None else table.flip(1) for table in (key_table, value_table, bias)
    )
    settings = _Settings(distances, content, 1.0 / scale, offset, causal, valid)
    result: Tensor = _ByDistance.apply(  # type: ignore[no-untyped-call]
        query, keys, values, reversed_table, query_table, reversed_values, reversed_bias, settings
    )
    return result


@dataclass(frozen=True)
class _Settings:
    distances: Distances
    content: bool
    factor: float
    offset: int
    causal: bool
    valid: Bool[Tensor, "b m"] | None

    def blocks(self, queries: int, keys: int) -> list[_Block]:
        """The queries, a block at a time."""
        blocks = []
        for first in range(0, queries, BLOCK):
            last = min(first + BLOCK, queries)
            seen = min(keys, self.offset + last) if self.causal else keys
            blocks.append(_Block(first, last, self.offset + first, seen, self.distances))
        return blocks


def _scores(
    block: _Block,
    query: Float[Tensor, "b i d"],
    keys: Float[Tensor, "b m d"],
    products: tuple[Float[Tensor, "b i w"] | None, Float[Tensor, "b m w"] | None],
    settings: _Settings,
) -> Float[Tensor, "b i j"]:
    """The scaled scores of one block of one head; −∞ where a key is masked."""
    seen, left, right = block.keys, block.left, block.right
    by_query, by_key = products
    scores = query @ keys[:, :seen].mT if settings.content else query.new_zeros(*query.shape[:2], seen)
    if by_query is not None:
        block.spread(by_query, scores)
    if by_key is not None:
        far, near = block.columns_of_keys()
        scores[..., :left] += by_key[:, None, :left, far]
        scores[..., left:right] += block.of_keys(by_key)
        scores[..., right:] += by_key[:, None, right:seen, near]
    scores *= settings.factor
    if settings.causal and seen > block.position + 1:
        future = torch.ones(scores.shape[1], seen - block.position - 1, dtype=torch.bool).triu()
        scores[..., block.position + 1 :].masked_fill_(future.to(scores.device), -torch.inf)
    if settings.valid is not None:
        scores.masked_fill_(~settings.valid[:, None, :seen], -torch.inf)
    return scores


def _by_query(
    rows: Float[Tensor, "b i d"], table: Float[Tensor, "w d"] | None, bias: Float[Tensor, "w"] | None
) -> Float[Tensor, "b i w"] | None:
    """q·aᵀ + b of the queries of a block, for every distance."""
    if bias is None:
        return None if table is None else rows @ table.T
    return bias.repeat(*rows.shape[:2], 1) if table is None else rows @ table.T + bias


class _ByDistance(torch.autograd.Function):
    @staticmethod
    def forward(  # noqa: PLR0917 (autograd's own signature)
        ctx: Any,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        reversed_table: Tensor | None,
        query_table: Tensor | None,
        reversed_values: Tensor | None,
        reversed_bias: Tensor | None,
        settings: _Settings,
    ) -> Tensor:
        batch, heads, n, _ = query.shape
        out = values.new_empty(batch, heads, n, values.shape[-1])
        log_sums = query.new_empty(batch, heads, n, 1)
        tables = reversed_table, query_table, reversed_values, reversed_bias
        blocks = settings.blocks(n, keys.shape[2])
        for head in range(heads):
            head_query, head_keys, head_values = query[:, head], keys[:, head], values[:, head]
            table, met, places, bias = _of_head(head, *tables)  # (w, d), (w, d), (w, e), (w,)
            by_key = None if met is None else head_keys @ met.T  # (b, m, w)
            for block in blocks:
                rows = head_query[:, block.first : block.last]
                by_query = _by_query(rows, table, bias)
                weights = _scores(block, rows, head_keys, (by_query, by_key), settings)
                type_ = torch.finfo(weights.dtype)  # autocast may have computed them in bfloat16
                highest = weights.amax(-1, keepdim=True).clamp_(min=type_.min)
                weights.sub_(highest).exp_()
                sums = weights.sum(-1, keepdim=True).clamp_(min=type_.tiny)
                mixed = weights @ head_values[:, : block.keys]
                if places is not None:
                    mixed += block.collect(weights, weights.new_empty(*rows.shape[:2], len(places))) @ places
                out[:, head, block.first : block.last] = mixed.div_(sums)
                log_sums[:, head, block.first : block.last] = sums.log_().add_(highest)
        ctx.save_for_backward(query, keys, values, *tables, out, log_sums)
        ctx.settings = settings
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, keys, values, *tables, out, log_sums = ctx.saved_tensors
        settings: _Settings = ctx.settings
        inner = (grad * out).sum(-1, keepdim=True)  # (b, h, n, 1)
        d_query, d_keys, d_values = torch.zeros_like(query), torch.zeros_like(keys), torch.zeros_like(values)
        slopes = [None if table is None else torch.zeros_like(table) for table in tables]
        blocks = settings.blocks(query.shape[2], keys.shape[2])
        for head in range(query.shape[1]):
            head_query, head_keys, head_values = query[:, head], keys[:, head], values[:, head]
            table, met, places, bias = _of_head(head, *tables)
            d_table, d_met, d_places, d_bias = _of_head(head, *slopes)
            by_key = None if met is None else head_keys @ met.T  # (b, m, w)
            d_by_key = None if by_key is None else torch.zeros_like(by_key)
            for block in blocks:
                here, seen = slice(block.first, block.last), slice(0, block.keys)
                rows, d_out = head_query[:, here], grad[:, head, here]
                by_query = _by_query(rows, table, bias)
                weights = _scores(block, rows, head_keys, (by_query, by_key), settings)
                weights.sub_(log_sums[:, head, here]).exp_()
                d_values[:, head, seen] += weights.mT @ d_out
                d_scores = d_out @ head_values[:, seen].mT
                if places is not None and d_places is not None:
                    products = d_out @ places.T
                    block.spread(products, d_scores)
                    d_places += block.collect(weights, products).flatten(0, 1).T @ d_out.flatten(0, 1)
                d_scores.sub_(inner[:, head, here]).mul_(weights).mul_(settings.factor)
                d_rows = torch.zeros_like(rows)
                if settings.content:
                    d_rows += d_scores @ head_keys[:, seen]
                    d_keys[:, head, seen] += d_scores.mT @ rows
                left, right = block.left, block.right
                if by_query is not None:
                    d_by_query = block.collect(d_scores, by_query)
                    if table is not None and d_table is not None:
                        d_rows += d_by_query @ table
                        d_table += d_by_query.flatten(0, 1).T @ rows.flatten(0, 1)
                    if d_bias is not None:
                        d_bias += d_by_query.sum((0, 1))
                if d_by_key is not None:
                    far, near = block.columns_of_keys()
                    block.of_keys(d_by_key).add_(d_scores[..., left:right])
                    d_by_key[:, :left, far] += d_scores[..., :left].sum(1)
                    d_by_key[:, right : block.keys, near] += d_scores[..., right:].sum(1)
                d_query[:, head, here] = d_rows
            if d_by_key is not None and d_met is not None and met is not None:
                d_keys[:, head] += d_by_key @ met
                d_met += d_by_key.flatten(0, 1).T @ head_keys.flatten(0, 1)
        return d_query, d_keys, d_values, *slopes, None


def _of_head(head: int, *tables: Tensor | None) -> list[Tensor | None]:
    """This head's part of each table; a table with a single head serves all heads."""
    return [None if table is None else table[head if len(table) > 1 else 0] for table in tables]
