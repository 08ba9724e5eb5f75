"""L1.9: the mask of the decoder, for every mechanism that a decoder may have, with padding and with a cache."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.attention import AttentionContext, MultiHeadAttention
from clearhead.costing.tracing import attention_path
from clearhead.drawing.figure import Heat
from clearhead.errors import RecipeError
from clearhead.lectures.demonstrations.broken import broken_block
from clearhead.lectures.demonstrations.compare import ROUNDING, gap
from clearhead.lectures.demonstrations.l0_attention import sees_everything
from clearhead.lectures.demonstrations.pytorch import randomise
from clearhead.lectures.evidence import Evidence, EvidenceTable, Measure
from clearhead.models import LanguageModel, build
from clearhead.recipe import AttentionSpec, kinds, read_recipe

N = 6
FUTURE = torch.ones(N, N).triu(1).bool()
PATHS = ("explicit", "fused")


@dataclass(frozen=True)
class Row:
    """What one mechanism does."""

    name: str
    ahead: int
    """Derivatives ∂y_i/∂x_j ≠ 0 with j > i."""
    back: int
    """Derivatives ∂y_i/∂x_j ≠ 0 with j ≤ i."""
    cached: float
    """max|Δ| of the outputs with a cache, several tokens at a time, against all at once."""
    padded: float
    """max|Δ| of the outputs in a batch padded on either side, against alone."""


def no_look_ahead() -> Evidence:
    """L1.9: ∂y_i/∂x_j = 0 for j > i, for every attention and position that a decoder may have, on every path."""
    variants = {
        f"attention {kind}": f"model.attention.kind={kind}"
        for kind, entry in kinds("attention").items()
        if issubclass(entry.spec, AttentionSpec) and entry.spec.causal
    } | {f"position {kind}": f"model.position.kind={kind}" for kind in kinds("position")}
    models = {}
    for name, setting in variants.items():
        try:
            models[name] = _language_model(setting)
        except RecipeError:
            continue  # a scheme that a decoder over lines does not take
    rows = [_row(name, model) for name, model in models.items()]
    plain = _language_model()
    seen = int((~FUTURE).sum())

    def ahead() -> Measure:
        what = f"derivatives ∂y_i/∂x_j ≠ 0 with j > i, of {int(FUTURE.sum())}, plain decoder"
        return Measure(what, 0, _row("", plain).ahead)

    def back() -> Measure:
        return Measure("derivatives ≠ 0 with j ≤ i, plain decoder", seen, _row("", plain).back)

    def cached() -> Measure:
        what = "plain decoder, several tokens at a time with a cache, against all at once: max|Δ|"
        return Measure(what, 0.0, _row("", plain).cached, tolerance=ROUNDING)

    def padded() -> Measure:
        what = "plain decoder, lines padded on either side, against each alone: max|Δ|"
        return Measure(what, 0.0, _row("", plain).padded, tolerance=ROUNDING)

    picture, figures = _slide()
    mask, heads = "clearhead.attention.context.causal_mask", "clearhead.attention.paths.attend_heads"
    count = f"over {len(rows)} mechanisms"
    return Evidence(
        measures=(
            ahead(),
            back(),
            cached(),
            padded(),
            Measure(f"derivatives ≠ 0 with j > i, {count}", 0, sum(row.ahead for row in rows)),
            Measure(f"with a cache, {count}: max|Δ|", 0.0, max(row.cached for row in rows), tolerance=ROUNDING),
            Measure(f"padded, {count}: max|Δ|", 0.0, max(row.padded for row in rows), tolerance=ROUNDING),
            *picture(),
        ),
        wrong=(
            broken_block(
                "a mask that is off by one",
                mask,
                lambda right: lambda n, m, *device: right(n, m + 1, *device)[:, :-1],
                ahead,
            ),
            broken_block("no mask", heads, sees_everything, ahead),
            broken_block(
                "a mask that also hides the token before",
                mask,
                lambda right: lambda n, m, *device: right(n, m, *device) & ~_token_before(n, m),
                back,
            ),
            broken_block(
                "a mask aligned to the upper left, as in torch's kernel, with a cache",
                mask,
                lambda right: lambda n, m, *device: right(n, m, *device).tril(0),
                cached,
            ),
            broken_block(
                "padding that is taken for tokens",
                heads,
                lambda right: lambda *given: right(*given[:-1], replace(given[-1], valid=None)),
                padded,
            ),
            broken_block(
                "masked after the softmax: the weights no longer add up to 1",
                "clearhead.attention.choice.choose",
                lambda right: lambda scores, mask=None, choice="soft": right(scores, None, choice) * mask,
                lambda: picture()[0],
            ),
        ),
        tables=(
            EvidenceTable(
                "Every mechanism that may stand in a decoder, on the explicit and the fused path",
                ("mechanism", "≠ 0 for j > i", "≠ 0 for j ≤ i", "cache: max|Δ|", "padding: max|Δ|"),
                tuple((row.name, row.ahead, row.back, row.cached, row.padded) for row in rows),
            ),
        ),
        figures=(*figures, _jacobian_figure(plain)),
    )


def _token_before(queries: int, keys: int) -> Tensor:
    """True where a key is the last one before its query."""
    return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries - 1).triu(keys - queries - 1)


def _slide() -> tuple[Any, tuple[Heat, ...]]:
    """The slides' picture: QKᵀ of five tokens with d_k = 3, masked, then the softmax; by a module of the product."""
    module = MultiHeadAttention(width=3, heads=1)
    randomise(module)
    x = torch.randn(1, 5, 3)
    context = AttentionContext(causal=True)
    queries, keys = module.queries(x)[0, 0].detach(), module.candidates(x)[0][0, 0].detach()

    def weights() -> Tensor:
        seen: list[Tensor] = []
        handle = module.weights.register_forward_hook(lambda _module, _inputs, out: seen.append(out))
        module(x, context=context)
        handle.remove()
        return seen[0][0, 0].detach()

    def measures() -> tuple[Measure, ...]:
        alpha = weights()
        mask = context.mask(5, 5, x.device)
        assert mask is not None
        return (
            Measure(
                "rows of softmax(masked QKᵀ) that add up to 1",
                len(alpha),
                int(((alpha.sum(-1) - 1).abs() < ROUNDING).sum()),
            ),
            Measure("largest weight above the diagonal", 0.0, float(alpha[~mask].max())),
            Measure("Q × Kᵀ of the module", "5 × 3 · 3 × 5", f"{_shape(queries)} · {_shape(keys.T)}"),
        )

    scores = queries @ keys.T
    masked = context.mask(5, 5, x.device)
    assert masked is not None
    titles = ("QKᵀ: five queries (rows) by five keys", "The mask: 1 where a query may look", "softmax(masked QKᵀ/√d_k)")
    alts = (
        "A full square of scores.",
        "A lower triangle of ones: token 0 sees itself, token 4 sees all five.",
        "A lower triangle of weights; each row adds up to 1.",
    )
    values = (scores, masked.float(), weights())
    figures = tuple(_heat(title, alt, value) for title, alt, value in zip(titles, alts, values, strict=True))
    return measures, figures


def _shape(matrix: Tensor) -> str:
    return " × ".join(map(str, matrix.shape))


def _heat(title: str, alt: str, values: Float[Tensor, "n m"], x_label: str = "key", y_label: str = "query") -> Heat:
    rows, columns = values.shape
    return Heat(
        title=title,
        alt=alt,
        x_label=x_label,
        y_label=y_label,
        values=tuple(tuple(row) for row in values.tolist()),
        rows=tuple(map(str, range(rows))),
        columns=tuple(map(str, range(columns))),
    )


def _jacobian_figure(model: LanguageModel) -> Heat:
    attention_path(model, "explicit")
    return _heat(
        "How much output i depends on token j, through two layers with a mask",
        "A lower triangle: every entry above the diagonal is exactly 0.",
        _jacobian(model).log1p(),
        "token j",
        "output i",
    )


def _language_model(*settings: str) -> LanguageModel:
    sizes = ["model.layers=2", "model.width=16", "model.heads=2", "model.vocabulary.target=40"]
    model = build(read_recipe(None, "model.family=lm", *sizes, *settings), seed=3).eval()
    assert isinstance(model, LanguageModel)
    return model


def _row(name: str, model: LanguageModel) -> Row:
    """Everything about one mechanism, the worst of its paths."""
    ahead, back, cached, padded = 0, N * N, 0.0, 0.0
    for path in PATHS:
        attention_path(model, path)
        found = _jacobian(model) != 0
        ahead, back = max(ahead, int(found[FUTURE].sum())), min(back, int(found[~FUTURE].sum()))
        cached, padded = max(cached, _with_a_cache(model)), max(padded, _with_padding(model))
    return Row(name, ahead, back, cached, padded)


def _jacobian(model: LanguageModel) -> Float[Tensor, "n n"]:
    """|∂y_i/∂x_j|, summed over features, through the whole decoder."""
    stack: Any = model.decoder
    embedded: list[Tensor] = []
    handle = stack.embedding.register_forward_hook(lambda _module, _inputs, out: embedded.append(out))
    out: Tensor = stack(torch.arange(5, 5 + N)[None])
    handle.remove()
    direction = torch.linspace(1, 2, out.shape[-1])
    rows = [torch.autograd.grad(out[0, i] @ direction, embedded[0], retain_graph=True)[0] for i in range(N)]
    return torch.stack([row[0].abs().sum(-1) for row in rows])


@torch.no_grad()
def _with_a_cache(model: LanguageModel) -> float:
    """Two tokens, then three, then one, each added to the cache."""
    stack: Any = model.decoder
    ids, cache, parts = torch.arange(5, 5 + N)[None], stack.new_cache(), []
    for first, last in ((0, 2), (2, 5), (5, N)):
        parts.append(stack(ids[:, first:last], cache=cache))
    return gap(torch.cat(parts, dim=1), stack(ids))


@torch.no_grad()
def _with_padding(model: LanguageModel) -> float:
    """A short line beside a longer one, padded on the right and on the left, also when it is continued from a cache."""
    stack: Any = model.decoder
    short, worst = torch.arange(8, 12), 0.0
    alone = stack(short[None])[0]
    long = torch.arange(5, 5 + N)
    for left in (0, N - len(short)):
        places = slice(left, left + len(short))
        ids, valid = torch.stack((long, torch.zeros_like(long))), torch.ones(2, N, dtype=torch.bool)
        ids[1, places] = short
        valid[1] = False
        valid[1, places] = True
        worst = max(worst, gap(stack(ids, valid)[1, places], alone))
        if left:  # tokens that are added later stand after the padding
            cache = stack.new_cache()
            parts = [stack(ids[:, :3], valid[:, :3], cache=cache), stack(ids[:, 3:], valid[:, 3:], cache=cache)]
            worst = max(worst, gap(torch.cat(parts, dim=1)[1, places], alone))
    return worst
