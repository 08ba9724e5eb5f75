"""L1.1, L1.5, L1.6, L1.9: a pool of candidates, the size of a head, many heads, and the mask of the decoder."""

import math
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from clearhead.attention import AttentionContext, MultiHeadAttention, attend, causal_mask, weigh
from clearhead.drawing.figure import Bars, Heat
from clearhead.errors import RecipeError
from clearhead.lectures.demonstrations.compare import alike
from clearhead.lectures.demonstrations.pytorch import randomise
from clearhead.lectures.evidence import Evidence, EvidenceTable, Measure, Wrong
from clearhead.models import LanguageModel, build
from clearhead.recipe import AttentionSpec, kinds, read_recipe


def pool_of_candidates() -> Evidence:
    """L1.1: one query over a pool, against a loop over its candidates."""
    query, keys, values = torch.randn(8), torch.randn(6, 8), torch.randn(6, 3)
    closeness = [math.exp(float(query @ key) / math.sqrt(8)) for key in keys]
    weights = [one / sum(closeness) for one in closeness]
    expected = sum((weight * value for weight, value in zip(weights, values, strict=True)), torch.zeros(3))
    alpha = weigh(query[None], keys)[0]
    name = "attend(q, D) against Σ_i α(q, k_i) v_i, one candidate at a time"
    return Evidence(
        measures=(
            alike(name, attend(query, keys, values), expected),
            Measure("Σ_i α(q, k_i)", 1.0, float(alpha.sum()), tolerance=1e-6),
        ),
        wrong=(
            Wrong(
                "a sum that ends one candidate too early", alike(name, attend(query, keys[:-1], values[:-1]), expected)
            ),
            Wrong(
                "closeness without its normaliser",
                Measure("Σ_i exp(q·k_i/√d)", 1.0, sum(closeness), tolerance=1e-6),
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
    """L1.5: d_k is the number of columns of Q and K, in a head those of the head."""
    width, heads = 24, 4
    module = MultiHeadAttention(width=width, heads=heads)
    randomise(module)
    x = torch.randn(1, 5, width)
    seen: list[Tensor] = []
    module.weights.register_forward_hook(lambda _module, _inputs, weights: seen.append(weights))
    module(x)
    size = width // heads
    q, k = (part(x)[0, :, :size] for part in (module.query, module.key))  # the columns of the first head

    def weights(d_k: int) -> Tensor:
        return weigh(q, k, scale=math.sqrt(d_k))

    name = "weights of head 1 against softmax(QKᵀ/√d_k)"
    return Evidence(
        measures=(
            Measure("columns of Q in a head: d / h", size, q.shape[1]),
            alike(f"{name}, d_k = {size}", seen[0][0, 0], weights(size)),
        ),
        wrong=(
            Wrong(f"d_k taken as the width of the tokens, {width}", alike(name, seen[0][0, 0], weights(width))),
            Wrong("d_k taken as the number of rows, 5", alike(name, seen[0][0, 0], weights(5))),
        ),
    )


def heads_are_separate() -> Evidence:
    """L1.6: h attentions side by side: each of them alone, and one head's weights move one slice."""
    module = MultiHeadAttention(width=12, heads=3, output=False)
    randomise(module)
    x = torch.randn(1, 5, 12)
    together = module(x)
    alone = []
    for head in range(3):
        single = MultiHeadAttention(width=12, heads=1, query_size=4, value_size=4, output=False)
        with torch.no_grad():
            for mine, other in ((single.query, module.query), (single.key, module.key), (single.value, module.value)):
                rows = slice(4 * head, 4 * head + 4)
                mine.get_parameter("weight").copy_(other.get_parameter("weight")[rows])
                mine.get_parameter("bias").copy_(other.get_parameter("bias")[rows])
        alone.append(single(x))
    with torch.no_grad():
        module.query.get_parameter("weight")[4:8] += 1.0
    moved = ((module(x) - together).abs().amax((0, 1)) > 1e-6).view(3, 4).any(1)
    name = "multi-head attention against its heads, run alone and concatenated"
    return Evidence(
        measures=(
            alike(name, together, torch.cat(alone, dim=-1)),
            Measure(
                "heads that move when W_Q of head 2 changes", "2", ", ".join(str(i + 1) for i in range(3) if moved[i])
            ),
        ),
        wrong=(
            Wrong(
                "the heads added up instead of concatenated",
                alike(name, together, torch.cat([sum(alone, torch.zeros(1, 5, 4))] * 3, dim=-1)),
            ),
            Wrong("the heads in another order", alike(name, together, torch.cat(alone[::-1], dim=-1))),
        ),
    )


class _OneTooMany(AttentionContext):
    """A mask that is off by one: each query also sees the token after it."""

    def _make_mask(self, queries: int, keys: int, device: torch.device) -> Bool[Tensor, "..."]:
        return causal_mask(queries, keys + 1, device)[:, :-1]


def no_look_ahead() -> Evidence:
    """L1.9: ∂y_i/∂x_j = 0 for j > i, for every attention and every position that a decoder may have."""
    n = 6
    variants = {
        f"attention {kind}": f"model.attention.kind={kind}"
        for kind, entry in kinds("attention").items()
        if _causal(entry.spec)
    }
    variants |= {f"position {kind}": f"model.position.kind={kind}" for kind in kinds("position")}
    future = torch.ones(n, n).triu(1).bool()
    rows = []
    for name, setting in variants.items():
        try:
            model = _language_model(setting)
        except RecipeError:
            continue  # a scheme that a decoder over lines does not take
        jacobian = _influence(model, n)
        rows.append((name, int((jacobian[future] != 0).sum()), int((jacobian[~future] != 0).sum())))
    plain = _language_model()
    jacobian, wrong = _influence(plain, n), _influence(plain, n, _OneTooMany(causal=True))
    what = f"derivatives ∂y_i/∂x_j ≠ 0 with j > i, of {int(future.sum())}"
    keys = torch.randn(5, 3)
    return Evidence(
        measures=(
            Measure(f"{what}, over {len(rows)} mechanisms", 0, sum(row[1] for row in rows)),
            Measure("derivatives ≠ 0 with j ≤ i, plain decoder", n * (n + 1) // 2, int((jacobian[~future] != 0).sum())),
            Measure("shape of Kᵀ for 5 tokens and d_k = 3", "3 × 5", " × ".join(map(str, keys.T.shape))),
        ),
        wrong=(
            Wrong("a mask that is off by one", Measure(what, 0, int((wrong[future] != 0).sum()))),
            Wrong("no mask", Measure(what, 0, int((_influence(plain, n, AttentionContext())[future] != 0).sum()))),
        ),
        tables=(
            EvidenceTable(
                "Every mechanism that may stand in a decoder",
                ("mechanism", "≠ 0 for j > i", "≠ 0 for j ≤ i"),
                tuple(rows),
            ),
        ),
        figures=(
            Heat(
                title="How much output i depends on token j, through two layers with a mask",
                alt="A lower triangle: every entry above the diagonal is exactly 0.",
                x_label="token j",
                y_label="output i",
                values=tuple(tuple(row) for row in jacobian.log1p().tolist()),
                rows=tuple(str(i) for i in range(n)),
                columns=tuple(str(j) for j in range(n)),
            ),
        ),
    )


def _causal(spec: type) -> bool:
    return issubclass(spec, AttentionSpec) and spec.causal


def _language_model(*settings: str) -> LanguageModel:
    sizes = ["model.layers=2", "model.width=16", "model.heads=2", "model.vocabulary.target=40"]
    model = build(read_recipe(None, "model.family=lm", *sizes, *settings), seed=3).eval()
    assert isinstance(model, LanguageModel)
    return model


def _influence(model: LanguageModel, n: int, context: AttentionContext | None = None) -> Tensor:
    """|∂y_i/∂x_j|, summed over features: through the whole decoder, or through its layers with another context."""
    stack: Any = model.decoder
    ids = torch.arange(5, 5 + n)[None]
    embedded: list[Tensor] = []
    handle = stack.embedding.register_forward_hook(lambda _module, _inputs, out: embedded.append(out))
    out: Tensor = stack(ids)
    handle.remove()
    if context is not None:
        out = embedded[0]
        for layer in stack.layers:
            out = layer(out, context)
    direction = torch.linspace(1, 2, out.shape[-1])
    rows = [torch.autograd.grad(out[0, i] @ direction, embedded[0], retain_graph=True)[0] for i in range(n)]
    return torch.stack([row[0].abs().sum(-1) for row in rows])
