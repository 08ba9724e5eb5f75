"""Disentangled attention (L4.9): the literal loops of Algorithm 1, DeBERTa's index maps, blocks, and the cache."""

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.attention import AttentionContext, DisentangledAttention, KeyValues, RelativeTable, blockwise
from clearhead.attention.disentangled import log_bucket

B, N, H, D, K = 2, 6, 2, 8, 3
SUBSETS = [list(terms) for size in (1, 2, 3) for terms in itertools.combinations(("c2c", "c2p", "p2c"), size)]


def make(*, table: dict[str, Any] | None = None, **settings: Any) -> DisentangledAttention:
    shared = RelativeTable(width=D, **{"span": K} | (table or {}))
    module = DisentangledAttention(width=D, heads=H, shared=shared, **settings)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, 0.5, generator=generator)
    return module


def algorithm_1(
    module: DisentangledAttention,
    x: Tensor,
    *,
    index: str = "released",
    number: int | None = None,
    seen: Tensor | None = None,
) -> Tensor:
    """Algorithm 1 of the paper, one pair of tokens at a time; ``index`` says which distance p2c reads."""
    size, length = D // H, len(x)
    table = module.places(slice(None))
    key, query = module.place_key or module.key, module.place_query or module.query
    heads = []
    for head in range(H):
        part = slice(head * size, (head + 1) * size)
        q, k, v = (linear(x)[:, part] for linear in (module.query, module.key, module.value))
        kr, qr = key(table)[:, part], query(table)[:, part]

        def delta(i: int, j: int) -> int:
            return min(max(i - j + K, 0), 2 * K - 1)

        scores = torch.full((length, length), -torch.inf)
        for i, j in itertools.product(range(length), repeat=2):
            if seen is not None and not seen[i, j]:
                continue
            scores[i, j] = 0
            if "c2c" in module.terms:
                scores[i, j] += q[i] @ k[j]
            if "c2p" in module.terms:
                scores[i, j] += q[i] @ kr[delta(i, j)]
            if "p2c" in module.terms:
                scores[i, j] += k[j] @ qr[delta(i, j) if index == "released" else delta(j, i)]
        heads.append((scores / math.sqrt((number or len(module.terms)) * size)).softmax(-1) @ v)
    out: Tensor = module.output(torch.cat(heads, -1))
    return out


@pytest.mark.parametrize("terms", SUBSETS, ids="+".join)
@pytest.mark.parametrize("index", ["released", "paper"])
def test_L4_9_it_is_algorithm_1(terms: list[Any], index: Any) -> None:
    """L4.9: every subset of terms, both readings of the index, against the literal loops."""
    module = make(terms=terms, p2c_index=index)
    x = torch.randn(B, N, D)
    out = module(x)
    for line in range(B):
        torch.testing.assert_close(out[line], algorithm_1(module, x[line], index=index), atol=1e-5, rtol=1e-5)
    other = "paper" if index == "released" else "released"
    if "p2c" in terms:
        assert not torch.allclose(out[0], algorithm_1(module, x[0], index=other), atol=1e-3)
    wrong = algorithm_1(module, x[0], index=index, number=len(terms) + 1)  # 3 is the number of active terms
    assert not torch.allclose(out[0], wrong, atol=1e-3)


def test_L4_9_rows_are_debertas() -> None:
    """Reference: DeBERTa v1's build_relative_position, clipped as its attention does; index maps exactly equal."""
    from transformers.models.deberta.modeling_deberta import build_relative_position

    table = RelativeTable(width=2, span=5)
    places = torch.arange(17)
    theirs = build_relative_position(torch.zeros(1, 17, 2), torch.zeros(1, 17, 2))[0]
    assert torch.equal(table.row(places[:, None] - places), (theirs + 5).clamp(0, 9))
    assert not torch.equal(table.row(places - places[:, None]), (theirs + 5).clamp(0, 9))


@pytest.mark.parametrize(("buckets", "span"), [(256, 512), (8, 20), (32, 128)])
def test_L4_9_buckets_are_debertas(buckets: int, span: int) -> None:
    """Reference: DeBERTa v2's make_log_bucket_position and its clipping, far beyond the span too."""
    from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

    distance = torch.arange(-3 * span, 3 * span + 1)
    theirs = make_log_bucket_position(distance, buckets, span).long()
    near = distance.abs() < span
    assert torch.equal(log_bucket(distance, buckets, span)[near], theirs[near])
    rows = RelativeTable(width=2, span=span, buckets=buckets).row(distance)
    assert torch.equal(rows, (theirs + buckets).clamp(0, 2 * buckets - 1))
    assert not torch.equal(RelativeTable(width=2, span=span + 9, buckets=buckets).row(distance), rows)


TABLES: dict[str, dict[str, Any]] = {
    "v1": {"table": {"span": 5}},
    "v2": {"table": {"span": 12, "buckets": 6, "normalised": True}, "shared_projections": True},
    "paper": {"table": {"span": 4}, "p2c_index": "paper"},
    "positions alone": {"table": {"span": 4}, "terms": ["c2p", "p2c"]},
    "no c2p": {"table": {"span": 4}, "terms": ["c2c", "p2c"]},
    "no p2c": {"table": {"span": 4}, "terms": ["c2c", "c2p"]},
    "wide": {"table": {"span": 100}},
}


def _both_paths(
    module: DisentangledAttention, x: Tensor, context: AttentionContext, memory: Tensor | None
) -> list[tuple[Any, ...]]:
    results = []
    for path in ("explicit", "fused"):
        module.path = path
        module.zero_grad()
        leaf = x.clone().requires_grad_()
        out = module(leaf, memory, context=context)
        out.square().sum().backward()
        results.append((out.detach(), leaf.grad, *(parameter.grad for parameter in module.parameters())))
    return results


@pytest.mark.parametrize("settings", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("case", ["plain", "causal", "padded", "causal and padded", "memory", "later"])
def test_blocks_are_the_whole(settings: dict[str, Any], case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blockwise path equals the explicit one, forwards and backwards, in blocks that do not divide the length."""
    monkeypatch.setattr(blockwise, "BLOCK", 4)
    module = make(**settings).double()
    x = torch.randn(B, 11, D, dtype=torch.double)
    memory = torch.randn(B, 15, D, dtype=torch.double) if case in ("memory", "later") else None
    keys = torch.arange(11 if memory is None else 15)
    queries = torch.arange(11) + (6 if case == "later" else 0)
    valid = torch.ones(B, len(keys), dtype=torch.bool)
    valid[1, 7:] = False
    if case == "padded":
        valid[0] = False  # a line of padding alone
    hidden = valid if "padded" in case or case == "memory" else None
    context = AttentionContext(valid=hidden, causal="causal" in case, queries=queries, keys=keys)
    explicit, blocks = _both_paths(module, x, context, memory)
    for mine, expected in zip(blocks, explicit, strict=True):
        torch.testing.assert_close(mine, expected, atol=1e-10, rtol=1e-8)
    assert explicit[0].isfinite().all()
    wrong = AttentionContext(valid=hidden, causal="causal" in case, queries=queries + 1, keys=keys)  # off by one
    if "causal" not in case:
        assert not torch.allclose(module(x, memory, context=wrong), explicit[0], atol=1e-3)


@pytest.mark.parametrize("settings", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("chunks", [(1,) * 7, (3, 1, 2, 1), (5, 2)])
def test_a_cache_is_right_at_every_offset(settings: dict[str, Any], chunks: tuple[int, ...]) -> None:
    """Contract 2: causal with a cache, in any chunks; the table is projected once."""
    module = make(**settings)
    x, places = torch.randn(3, 7, D), torch.arange(7)
    whole = module(x, context=AttentionContext(causal=True, queries=places, keys=places))
    cache, parts, start = KeyValues(), [], 0
    for size in chunks:
        end = start + size
        with torch.no_grad():
            context = AttentionContext(causal=True, queries=places[start:end], keys=places[:end])
            parts.append(module(x[:, start:end], context=context, cache=cache))
        start = end
    torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-5, rtol=1e-5)
    assert "places" in cache.kept


def test_causal_is_algorithm_1_with_a_mask() -> None:
    module, places = make(), torch.arange(N)
    x = torch.randn(1, N, D)
    out = module(x, context=AttentionContext(causal=True, queries=places, keys=places))
    seen = torch.ones(N, N).tril().bool()
    torch.testing.assert_close(out[0], algorithm_1(module, x[0], seen=seen), atol=1e-5, rtol=1e-5)


def test_hard_attention_takes_the_best_key() -> None:
    """L0.3 wherever soft works: one-hot weights, straight-through gradients."""
    module = make(choice="hard")
    seen: list[Tensor] = []
    module.weights.register_forward_hook(lambda _m, _i, weights: seen.append(weights))
    x = torch.randn(B, N, D, requires_grad=True)
    module(x).sum().backward()
    assert torch.equal(seen[0].sort(-1).values[..., -1], torch.ones(B, H, N))
    assert torch.equal(seen[0].sum(-1), torch.ones(B, H, N))
    assert module.places.table.weight.grad is not None
    assert module.places.table.weight.grad.abs().sum() > 0
