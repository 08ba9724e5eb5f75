"""Attention as a pure function of queries, keys and values (L1.1, L0.2), without parameters.

There are two paths to the same result: the *explicit* one forms the weights and supports every score and choice; the
*fused* one never forms them. Tests hold them equal. ``attend`` takes the fused path where it applies.

Shapes: n queries, m keys, d features of query and key, e features of a value; g heads of keys and values.
"""

from collections.abc import Callable

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from clearhead.attention.choice import Choice, choose
from clearhead.attention.score import Scale, divisor, dot, soft_cap

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
    cap: float | None = None,
) -> Float[Tensor, "*b n m"]:
    """The attention weights α(q, k_i) = choice(score(q, k_i)/scale + bias) (L1.1).

    The arguments are those of ``attend``; ``cap`` keeps the scaled scores within ±cap (``soft_cap``).
    """
    scores = soft_cap(score(query, keys) / divisor(scale, query.shape[-1]), cap)
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
    """Attention(q, D) = Σ_i α(q, k_i) v_i over the key-value pairs D = (k_1, v_1) … (k_m, v_m) (L1.1, L0.2).

    Args:
        query: n queries, or a single one of shape (d,).
        keys: m keys.
        values: m values.
        score: the function that compares queries with keys. Default: the dot product.
        scale: what scores are divided by: ``sqrt`` (√d, the default), ``dim`` (d), ``none``, or a number.
        choice: ``soft`` (softmax, the default) or ``hard`` (the best key alone, L0.3).
        mask: True where a query may attend to a key; must broadcast to (…, n, m). Default: everywhere.
        bias: added to the scaled scores; must broadcast to (…, n, m). Default: nothing.

    A query that may attend to no key gets 0.

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
    keys: Float[Tensor, "b g m d"],
    values: Float[Tensor, "b g m e"],
    bias: Float[Tensor, "h r"],
    *,
    scale: Scale = "sqrt",
    dropout: float = 0.0,
) -> Float[Tensor, "b h n e"]:
    """softmax(QKᵀ/scale + bias)V with a bias that depends on the distance i − j alone.

    ``bias`` holds the r = n + m − 1 values, from the lowest distance to the highest. torch's kernel takes a bias for
    each of the n·m pairs. With the keys in reverse order, each row of that n×m matrix is the previous row shifted by
    one, so the matrix is a strided view of the r numbers and takes no memory. For the gradient, the reversed keys and
    values are kept instead of the original ones.
    """
    n, m = query.shape[2], keys.shape[2]
    pairs = bias.contiguous().as_strided((1, len(bias), n, m), (0, n + m - 1, 1, 1))
    return fused(query, keys.flip(2), values.flip(2), scale=scale, bias=pairs, dropout=dropout)


def fused(
    query: Float[Tensor, "*b n d"],
    keys: Float[Tensor, "*g m d"],
    values: Float[Tensor, "*g m e"],
    *,
    scale: Scale = "sqrt",
    mask: Bool[Tensor, "..."] | None = None,
    bias: Float[Tensor, "..."] | None = None,
    causal: bool = False,
    dropout: float = 0.0,
) -> Float[Tensor, "*b n e"]:
    """softmax(QKᵀ/scale + bias)V by torch's fused kernel, which never stores the n×m weights (L1.11).

    ``causal`` needs n = m and neither mask nor bias: the kernel aligns its mask to the upper left, which is wrong with
    a cache. Queries that may attend to no key get 0, for boolean masks as well as for −∞. Neighbouring heads may share
    keys and values: then these have fewer heads, whose number divides that of the queries.
    """
    if bias is not None:
        mask = bias if mask is None else bias.masked_fill(~mask, float("-inf"))
        if mask.dim() == 3 and query.dim() == 4:
            mask = mask[None]  # with three dimensions torch would not use the fused kernel
    return F.scaled_dot_product_attention(
        query,
        keys,
        values,
        attn_mask=mask,
        dropout_p=dropout,
        is_causal=causal,
        scale=1.0 / divisor(scale, query.shape[-1]),
        enable_gqa=query.shape[:-2] != keys.shape[:-2],
    )
