"""L1.1, L1.5, L1.6: a pool of candidates, the size of a head, and many heads."""

import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from clearhead.attention import MultiHeadAttention, weigh
from clearhead.drawing.figure import Bars
from clearhead.lectures.demonstrations.broken import broken_block
from clearhead.lectures.demonstrations.compare import ROUNDING, gap
from clearhead.lectures.demonstrations.l0_attention import loop, no_mask_in, on_each_path
from clearhead.lectures.demonstrations.pytorch import randomise
from clearhead.lectures.demonstrations.ways import every_way, gaps
from clearhead.lectures.evidence import Evidence, Measure


def pool_of_candidates() -> Evidence:
    """L1.1: one query over a pool, on every path, against a loop over its candidates; the last two are padding."""
    query, keys, values = torch.randn(8), torch.randn(8, 8), torch.randn(8, 3)
    valid = torch.arange(8) < 6
    closeness = [math.exp(float(query @ key) / math.sqrt(8)) for key in keys[:6]]
    weights = [one / sum(closeness) for one in closeness]
    expected = sum((weight * value for weight, value in zip(weights, values[:6], strict=True)), torch.zeros(3))

    def worst() -> Measure:
        found = on_each_path(query[None], keys, values, valid)
        off = max(gap(out[0], expected) for out in found.values())
        what = f"Attention(q, D) against Σ_i α(q, k_i) v_i, one candidate at a time, worst of {', '.join(found)}"
        return Measure(what, 0.0, off, tolerance=ROUNDING)

    def total() -> Measure:
        alpha = weigh(query[None], keys, mask=valid[None])
        return Measure("Σ_i α(q, k_i)", 1.0, float(alpha.sum()), tolerance=1e-6)

    alpha = weigh(query[None], keys[:6])[0]
    choice = "clearhead.attention.choice.choose"
    return Evidence(
        measures=(worst(), total()),
        wrong=(
            broken_block(
                "a normaliser that ends one candidate too early, as its upper limit is missing in the notes",
                choice,
                lambda right: (
                    lambda scores, mask, choice="soft": (
                        right(scores, mask, choice) / (1 - right(scores, mask, choice)[..., 5:6])
                    )
                ),
                total,
            ),
            broken_block(
                "closeness without its normaliser",
                choice,
                lambda right: lambda scores, mask=None, choice="soft": scores.exp().masked_fill(~mask, 0),
                total,
            ),
            broken_block(
                "padding is taken for candidates", "clearhead.attention.attend.fused", no_mask_in("mask"), worst
            ),
        ),
        figures=(
            Bars(
                title="How close the query is to each key, and so how much of its value is taken",
                alt="The weight of each of the six candidates; together they are 1.",
                y_label="α(q, k_i)",
                labels=tuple(f"candidate {index + 1}" for index in range(6)),
                series=(("", tuple(alpha.tolist())),),
            ),
        ),
    )


def scale_of_a_head() -> Evidence:
    """L1.5: d_k is the number of columns of Q and K, in a head those of the head, on every path."""
    width, heads, n = 24, 4, 7
    module = MultiHeadAttention(width=width, heads=heads)
    randomise(module)
    module.requires_grad_(requires_grad=False)
    x = torch.randn(n, width)
    queries = module.queries(x[None])[0]  # (h, n, d_k)
    keys, values = (part[0] for part in module.candidates(x[None]))

    def by_hand(seen: Bool[Tensor, "n n"]) -> Tensor:
        joined = []
        for q, k, v in zip(queries, keys, values, strict=True):
            rows = [loop(q[i : i + 1], k[seen[i]], v[seen[i]], math.sqrt(q.shape[1])) for i in range(n)]
            joined.append(torch.cat(rows))
        output = module.output
        return torch.cat(joined, dim=-1) @ output.get_parameter("weight").T + output.get_parameter("bias")

    def worst() -> Measure:
        found = gaps(module, x, by_hand)
        what = f"softmax(QKᵀ/√d_k)V against a loop, worst of {', '.join(found)}: max|Δ|"
        return Measure(what, 0.0, max(found.values()), tolerance=ROUNDING)

    def recovered() -> Measure:
        """ln α_a − ln α_b = (q·k_a − q·k_b)/√d_k, so the weights tell what the scores were divided by."""
        weights: list[Tensor] = []
        handle = module.weights.register_forward_hook(lambda _module, _inputs, out: weights.append(out))
        module(x[None])
        handle.remove()
        logs = weights[0][0].double().log()
        products = queries.double() @ keys.double().transpose(1, 2)
        logs, products = logs[..., 1:] - logs[..., :1], products[..., 1:] - products[..., :1]
        squared = float((products * logs).sum() / (logs * logs).sum()) ** 2
        return Measure("d_k, recovered from the weights of the module", queries.shape[-1], squared, tolerance=1e-3)

    by_width = _divides_by(width)
    return Evidence(
        measures=(
            recovered(),
            worst(),
            Measure("columns of Q: d / h", width // heads, queries.shape[-1]),
            Measure("columns of K: d / h", width // heads, keys.shape[-1]),
        ),
        wrong=(
            broken_block(
                f"d_k taken as the width of the tokens, {width}",
                "clearhead.attention.score.divisor",
                by_width,
                recovered,
            ),
            broken_block(
                f"d_k taken as the number of rows, {n}", "clearhead.attention.score.divisor", _divides_by(n), worst
            ),
        ),
    )


def _divides_by(size: int) -> Callable[[Callable[..., float]], Callable[..., float]]:
    return lambda right: lambda scale, _size: right(scale, size)


def heads_are_separate() -> Evidence:
    """L1.6: h attentions side by side: each of them alone, on every path, and one head's weights move one slice."""
    heads, size, width = 3, 4, 12
    module = MultiHeadAttention(width=width, heads=heads, output=False)
    randomise(module)
    module.requires_grad_(requires_grad=False)
    x = torch.randn(6, width)
    alone = [_one_head(module, head, size) for head in range(heads)]

    def together() -> Measure:
        worst, paths = 0.0, dict[str, None]()
        for joined, *parts in zip(*(list(every_way(one, x)) for one in (module, *alone)), strict=True):
            worst = max(worst, gap(joined.out, torch.cat([part.out for part in parts], dim=-1)))
            paths[joined.path] = None
        what = f"multi-head attention against its heads, run alone and concatenated, worst of {', '.join(paths)}"
        return Measure(what, 0.0, worst, tolerance=ROUNDING)

    def moved() -> Measure:
        before, weight = module(x[None]), module.query.get_parameter("weight")
        rows = slice(size, 2 * size)
        weight[rows] += 1.0
        change = (module(x[None]) - before).abs().amax((0, 1)).view(heads, size).amax(1)
        weight[rows] -= 1.0
        names = ", ".join(str(head + 1) for head in range(heads) if change[head] > ROUNDING)
        return Measure("heads that move when W_Q of head 2 changes", "2", names)

    join, split = "clearhead.attention.heads.Heads.join", "clearhead.attention.heads.split_heads"
    return Evidence(
        measures=(together(), moved()),
        wrong=(
            broken_block(
                "the heads added up instead of concatenated",
                join,
                lambda right: lambda self, heads: right(self, heads.sum(1, keepdim=True).expand_as(heads)),
                together,
            ),
            broken_block(
                "the heads in another order",
                join,
                lambda right: lambda self, heads: right(self, heads.flip(1)),
                together,
            ),
            broken_block(
                "features dealt out to the heads in turn",
                split,
                lambda _right: lambda joined, heads, *_norm: joined.unflatten(-1, (-1, heads)).permute(0, 3, 1, 2),
                moved,
            ),
        ),
    )


def _one_head(module: Any, head: int, size: int) -> MultiHeadAttention:
    """One of the heads as an attention of its own."""
    single = MultiHeadAttention(
        width=module.query.in_features, heads=1, query_size=size, value_size=size, output=False
    ).requires_grad_(requires_grad=False)
    rows = slice(size * head, size * (head + 1))
    for mine, other in ((single.query, module.query), (single.key, module.key), (single.value, module.value)):
        for name in ("weight", "bias"):
            mine.get_parameter(name).copy_(other.get_parameter(name)[rows])
    return single
