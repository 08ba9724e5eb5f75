"""The four paths by which attention is computed, and the rules that choose one.

    explicit   forms the n×m weights: supports every score and choice, and hooks on the weights
    fused      torch's kernel, which never forms the weights (L1.11)
    distance   the same kernel, with a bias that depends on i − j alone: the n×m bias is a strided view
    blocks     our own kernel, a block of queries at a time: position terms never take n×m memory

All give the same result; tests hold them equal. The thresholds were measured with ``python -m benchmarks.attention`` on
one CPU thread, d = 256, 4 heads; docs/evidence/attention.md has the tables.

Shapes: b batch, n queries, m keys, h heads, g heads of keys and values, q and e features of a query and of a value in
one head.
"""

from typing import Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.attention.attend import fused, fused_by_distance, weigh
from clearhead.attention.blockwise import attend_by_distance
from clearhead.attention.choice import Choice
from clearhead.attention.context import AttentionContext
from clearhead.attention.heads import Weights, for_every_head
from clearhead.attention.score import DotScore, Scale, divisor
from clearhead.positions import is_exporting

PathName = Literal["explicit", "fused", "distance", "blocks"]
FEW_KEYS = 32
"""Up to this many keys, training takes the explicit path: the n×m weights are then no larger than the queries. Both
paths take the same time there, within what could be measured; there is no table of it in the evidence."""
MANY_KEYS = 1024
"""Above this many keys, position terms are computed in blocks. Measured for Shaw, forward: 109 ms and 68 MiB on the
explicit path at n = 1024, 126 ms and 18 MiB in blocks at n = 2048, which has four times the work."""
MANY_DISENTANGLED_KEYS, MANY_TO_LEARN_FROM = 384, 1024
"""The same for disentangled attention, without and with gradients. With gradients, blocks compute the scores twice, so
they pay off later: forward and backward take 320 ms explicitly at n = 1024 and 890 ms in blocks at n = 2048, with 140
and 71 MiB; forward, blocks at n = 1024 are 1.3 to 1.8 times as fast as transformers' DeBERTa."""


@runtime_checkable
class Method(Protocol):
    """The settings of an attention module that decide how it is computed."""

    score: DotScore
    choice: Choice
    cap: float | None
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
    keys: Float[Tensor, "b g m q"],
    values: Float[Tensor, "b g m e"],
    context: AttentionContext,
) -> Float[Tensor, "b h n e"]:
    """Σ_j α_ij v_j in every head, on the path that ``choose_path`` chooses.

    torch's kernel reads keys and values that heads share where they are; the other paths repeat them for each head.
    """
    query = method.score.fold(query)
    path = choose_path(method, query.shape[2], keys.shape[2], context)
    if path == "distance":
        return _by_distance(method, query, keys, values, context)
    if path == "fused":
        return _fused(method, query, keys, values, context)
    keys, values = for_every_head(keys, query.shape[1]), for_every_head(values, query.shape[1])
    if path == "blocks":
        return _in_blocks(method, query, keys, values, context)
    return _explicit(method, query, keys, values, context)


def choose_path(method: Method, n: int, m: int, context: AttentionContext) -> PathName:
    """Choose the path for n queries and m keys."""
    if not _needs_no_weights(method, m):
        return "explicit"
    if is_exporting():  # views by strides and our own kernel are no operators that other engines know
        return "explicit" if context.weighs_positions else "fused"
    if context.pairs is not None:
        return "explicit" if context.adds_terms else "fused"
    # a bias by distance can be a view, unless it needs a gradient or must be combined with a padding mask
    one_bias = n > 1 and context.valid is None and not context.learns_positions
    if one_bias and context.bias_of_distance is not None:
        return "distance"
    if works_in_blocks(method, n, m, MANY_KEYS) and context.in_blocks is not None:
        return "blocks"
    return "explicit" if context.weighs_positions else "fused"


def works_in_blocks(method: Method, n: int, m: int, many: int) -> bool:
    """Whether blocks of queries are faster: there are more than ``many`` keys, and the weights need not be formed."""
    if is_exporting() or n == 1 or not _needs_no_weights(method, m) or (method.training and method.drop.p):
        return False
    return method.path == "fused" or m > many


def _needs_no_weights(method: Method, m: int) -> bool:
    """Whether a kernel can do without the weights: no hook reads them, and it supports score, choice and cap."""
    if method.path == "explicit" or method.weights.watched or not method.score.products or method.choice != "soft":
        return False
    if method.cap is not None:
        return False
    # a compiled graph is for any number of keys
    return method.path == "fused" or torch.compiler.is_compiling() or not torch.is_grad_enabled() or m > FEW_KEYS


def _explicit(method: Method, query: Tensor, keys: Tensor, values: Tensor, context: AttentionContext) -> Tensor:
    weights = weigh(
        query,
        keys,
        score=method.score,
        scale=method.scale if method.score.products else "none",
        choice=method.choice,
        mask=context.mask(query.shape[2], keys.shape[2], query.device),
        bias=_bias(method, query, context),
        cap=method.cap,
    )
    weights = method.drop(method.weights(weights))
    heads: Tensor = weights @ values
    places = context.value_term(weights)
    return heads if places is None else heads + places


def _fused(method: Method, query: Tensor, keys: Tensor, values: Tensor, context: AttentionContext) -> Tensor:
    n, m, bias = query.shape[2], keys.shape[2], _bias(method, query, context)
    simple = context.causal and not is_exporting() and n == m and context.valid is None and bias is None
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
    assert bias is not None  # choose_path has checked it
    return fused_by_distance(query, keys, values, bias, scale=method.scale, dropout=_dropout(method))


def _in_blocks(method: Method, query: Tensor, keys: Tensor, values: Tensor, context: AttentionContext) -> Tensor:
    assert context.in_blocks is not None  # choose_path has checked it
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
        valid=context.valid,
    )


def _bias(method: Method, query: Tensor, context: AttentionContext) -> Float[Tensor, "..."] | None:
    """Everything that is added to the scaled scores: the scheme's bias and its key term."""
    term = context.key_term(query)
    if term is None:
        return context.bias
    term = term / divisor(method.scale, query.shape[-1])
    return term if context.bias is None else context.bias + term


def _dropout(method: Method) -> float:
    return method.drop.p if method.training else 0.0
