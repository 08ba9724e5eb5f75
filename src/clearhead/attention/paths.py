"""Four ways to compute one attention, and which of them is taken.

    explicit   forms the n×m weights: any score, any choice, weights that a hook watches
    fused      torch's kernel, which never forms them (L1.11)
    distance   the same kernel, where the bias depends on i − j alone: the bias of all pairs is a view
    blocks     our own blocks of queries, where what depends on distances would be as large as the weights

All give the same result; tests hold them equal. The thresholds below were read off ``benchmarks.attention``
(docs/evidence/attention.md) on a CPU.

Shapes: b batch, n queries, m keys, h heads, q and e features of a query and of a value in one head.
"""

from typing import Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.attention.attend import fused, fused_by_distance, weigh
from clearhead.attention.blockwise import attend_by_distance
from clearhead.attention.choice import Choice
from clearhead.attention.context import AttentionContext
from clearhead.attention.heads import Weights
from clearhead.attention.score import DotScore, Scale, divisor

Way = Literal["explicit", "fused", "distance", "blocks"]
FEW_KEYS = 32
"""Up to so many, training forms the weights: they are smaller than the queries then, and the kernel's backward pass is
the slower one."""
MANY_KEYS = 1024
"""Beyond so many, what depends on distances is added a block of queries at a time, which is then the faster way."""
MANY_DISENTANGLED_KEYS, MANY_TO_LEARN_FROM = 384, 1024
"""The same for disentangled attention, without gradients and with them: blocks compute the scores twice to learn."""


@runtime_checkable
class Method(Protocol):
    """The settings of a multi-head attention that decide how it is computed."""

    score: DotScore
    choice: Choice
    path: Literal["auto", "fused", "explicit"]
    weights: Weights
    drop: nn.Dropout
    training: bool

    @property
    def scale(self) -> Scale:
        """What scores are divided by."""


def attend_heads(
    method: Method,
    query: Float[Tensor, "b h n q"],
    keys: Float[Tensor, "b h m q"],
    values: Float[Tensor, "b h m e"],
    context: AttentionContext,
) -> Float[Tensor, "b h n e"]:
    """Σ_j α_ij v_j in every head, by the way that suits the sizes."""
    query = method.score.fold(query)
    way = choose_way(method, query.shape[2], keys.shape[2], context)
    if way == "distance":
        return _by_distance(method, query, keys, values, context)
    if way == "blocks":
        return _in_blocks(method, query, keys, values, context)
    if way == "fused":
        return _fused(method, query, keys, values, context)
    return _explicit(method, query, keys, values, context)


def choose_way(method: Method, n: int, m: int, context: AttentionContext) -> Way:
    """Which way to take for n queries over m keys."""
    if not _needs_no_weights(method, m):
        return "explicit"
    # a bias of distances alone need not be spread over all pairs, unless it is learnt or lines have padding
    one_bias = n > 1 and context.present is None and not context.learns_positions
    if one_bias and context.bias_of_distance is not None:
        return "distance"
    if works_in_blocks(method, n, m, MANY_KEYS) and context.in_blocks is not None:
        return "blocks"
    return "explicit" if context.weighs_positions else "fused"


def works_in_blocks(method: Method, n: int, m: int, many: int) -> bool:
    """Whether blocks of queries pay: there are ``many`` keys, and nothing asks for the weights."""
    if n == 1 or not _needs_no_weights(method, m) or (method.training and method.drop.p):
        return False
    return method.path == "fused" or m > many


def _needs_no_weights(method: Method, m: int) -> bool:
    """Whether the weights need not be formed: nobody looks at them, and the kernel knows this mathematics."""
    if method.path == "explicit" or method.weights.watched or not method.score.products or method.choice != "soft":
        return False
    return method.path == "fused" or m > FEW_KEYS or not torch.is_grad_enabled()


def _explicit(method: Method, query: Tensor, keys: Tensor, values: Tensor, context: AttentionContext) -> Tensor:
    weights = weigh(
        query,
        keys,
        score=method.score,
        scale=method.scale if method.score.products else "none",
        choice=method.choice,
        mask=context.mask(query.shape[2], keys.shape[2], query.device),
        bias=_bias(method, query, context),
    )
    weights = method.drop(method.weights(weights))
    heads: Tensor = weights @ values
    places = context.value_term(weights)
    return heads if places is None else heads + places


def _fused(method: Method, query: Tensor, keys: Tensor, values: Tensor, context: AttentionContext) -> Tensor:
    n, m, bias = query.shape[2], keys.shape[2], _bias(method, query, context)
    simple = context.causal and n == m and context.present is None and bias is None
    return fused(
        query,
        keys,
        values,
        scale=method.scale,
        mask=None if simple else context.mask(n, m, query.device),
        bias=bias,
        causal=simple,
        dropout=_dropout(method),
    )


def _by_distance(method: Method, query: Tensor, keys: Tensor, values: Tensor, context: AttentionContext) -> Tensor:
    bias = context.bias_of_distance
    assert bias is not None  # choose_way has looked
    return fused_by_distance(query, keys, values, bias, scale=method.scale, dropout=_dropout(method))


def _in_blocks(method: Method, query: Tensor, keys: Tensor, values: Tensor, context: AttentionContext) -> Tensor:
    assert context.in_blocks is not None  # choose_way has looked
    tables, distances, offset = context.in_blocks
    root = divisor(method.scale, query.shape[-1])
    return attend_by_distance(
        query,
        keys,
        values,
        key_table=tables.keys,
        value_table=tables.values,
        bias=None if tables.bias is None else tables.bias * root,
        distances=distances,
        scale=root,
        offset=offset,
        causal=context.causal,
        present=context.present,
    )


def _bias(method: Method, query: Tensor, context: AttentionContext) -> Float[Tensor, "..."] | None:
    """All that is added to the scaled scores: the scheme's bias, and what it makes of the queries."""
    term = context.key_term(query)
    if term is None:
        return context.bias
    term = term / divisor(method.scale, query.shape[-1])
    return term if context.bias is None else context.bias + term


def _dropout(method: Method) -> float:
    return method.drop.p if method.training else 0.0
