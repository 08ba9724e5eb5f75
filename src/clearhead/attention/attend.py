"""Attention over a pool of candidates (L1.1, L0.2): the mathematics, without weights of its own.

Two ways to the same result: *explicit*, which forms the weights and can do every score and choice, and *fused*, which
never forms them. A test holds them equal; ``attend`` takes the fused one where it applies.

Shapes: n queries, m keys, d features of query and key, e features of a value.
"""

from collections.abc import Callable

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from clearhead.attention.choice import Choice, choose
from clearhead.attention.score import Scale, divisor, dot

Score = Callable[[Tensor, Tensor], Tensor]


def weigh(
    query: Float[Tensor, "*b n d"],
    keys: Float[Tensor, "*b m d"],
    *,
    score: Score = dot,
    scale: Scale = "sqrt",
    choice: Choice = "soft",
    mask: Bool[Tensor, "..."] | None = None,
    bias: Float[Tensor, "..."] | None = None,
) -> Float[Tensor, "*b n m"]:
    """How much of each candidate a query takes: α(q, k_i) = choice(score(q, k_i)/scale + bias) (L1.1)."""
    scores = score(query, keys) / divisor(scale, query.shape[-1])
    if bias is not None:
        scores = scores + bias
    return choose(scores, mask, choice)


def attend(
    query: Float[Tensor, "*b n d"] | Float[Tensor, "d"],
    keys: Float[Tensor, "*b m d"],
    values: Float[Tensor, "*b m e"],
    *,
    score: Score = dot,
    scale: Scale = "sqrt",
    choice: Choice = "soft",
    mask: Bool[Tensor, "..."] | None = None,
    bias: Float[Tensor, "..."] | None = None,
) -> Float[Tensor, "*b n e"] | Float[Tensor, "*b e"]:
    """Attention(q, D) = Σ_i α(q, k_i) v_i over the pool D = (k_1, v_1) … (k_m, v_m) (L1.1).

    Works on bare tensors: one query of shape (d,) for every pool, or N queries over M keys (L0.2), with any batch.
    ``mask`` is True where a query may look; ``bias`` is added to the scaled scores. A query that may look nowhere
    gets 0.

    >>> import torch
    >>> attend(torch.zeros(2), torch.ones(3, 2), torch.tensor([[0.0], [3.0], [6.0]]))
    tensor([3.])
    """
    if query.dim() == 1:
        one: Tensor = attend(
            query.expand(*keys.shape[:-2], 1, -1),
            keys,
            values,
            score=score,
            scale=scale,
            choice=choice,
            mask=mask,
            bias=bias,
        )
        return one[..., 0, :]
    if score is dot and choice == "soft" and query.dim() >= 3:
        return fused(query, keys, values, scale=scale, mask=mask, bias=bias)
    return weigh(query, keys, score=score, scale=scale, choice=choice, mask=mask, bias=bias) @ values


def fused_by_distance(
    query: Float[Tensor, "b h n d"],
    keys: Float[Tensor, "b h m d"],
    values: Float[Tensor, "b h m e"],
    bias: Float[Tensor, "h r"],
    *,
    scale: Scale = "sqrt",
    dropout: float = 0.0,
) -> Float[Tensor, "b h n e"]:
    """softmax(QKᵀ/scale + bias)V where query i and key j have the bias of i − j: r = n + m − 1, from the lowest.

    The kernel wants a bias for each pair, n·m of them. But with the keys in reverse, the bias of a row is that of the
    row before, moved by one: a step down and a step to the right are both one step through the r numbers. So the bias
    of all pairs is a view, and nothing is held. Keys and values in reverse are kept for the gradient in place of
    those that they were made from.
    """
    n, m = query.shape[2], keys.shape[2]
    pairs = bias.contiguous().as_strided((1, len(bias), n, m), (0, n + m - 1, 1, 1))
    return fused(query, keys.flip(2), values.flip(2), scale=scale, bias=pairs, dropout=dropout)


def fused(
    query: Float[Tensor, "*b n d"],
    keys: Float[Tensor, "*b m d"],
    values: Float[Tensor, "*b m e"],
    *,
    scale: Scale = "sqrt",
    mask: Bool[Tensor, "..."] | None = None,
    bias: Float[Tensor, "..."] | None = None,
    causal: bool = False,
    dropout: float = 0.0,
) -> Float[Tensor, "*b n e"]:
    """softmax(QKᵀ/scale + bias)V without holding the n×m weights (L1.11), by torch's fused kernel.

    ``causal`` is for as many queries as keys, without mask and bias: the kernel aligns it to the upper left, which
    is wrong with a cache. The kernel gives 0 to rows that may look nowhere, both for boolean masks and for −∞.
    """
    if bias is not None:
        mask = bias if mask is None else bias.masked_fill(~mask, float("-inf"))
        if mask.dim() == 3 and query.dim() == 4:
            mask = mask[None]  # with three dimensions torch would leave its kernel and form the weights
    return F.scaled_dot_product_attention(
        query,
        keys,
        values,
        attn_mask=mask,
        dropout_p=dropout,
        is_causal=causal,
        scale=1.0 / divisor(scale, query.shape[-1]),
    )
