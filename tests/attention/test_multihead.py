"""Multi-head attention with free sizes, against einsums and against heads computed one by one."""

import itertools
from typing import Any

import jaxtyping
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from clearhead.attention import AttentionContext, Cache, KeyValues, MultiHeadAttention, blockwise, causal_mask
from clearhead.positions import AlibiBias, BucketBias, RotaryPosition, ShawPosition


def randomise(module: torch.nn.Module) -> Any:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, 0.3)
    return module.eval()


def heads_one_by_one(module: Any, query: Tensor, keys: Tensor, values: Tensor, h: int, dq: int, dv: int) -> Tensor:
    """concat(head_1 …) W_O with head_i = softmax(Q W_i^Q (K W_i^K)ᵀ/√d̃_q) V W_i^V, the notes' own formula (L0.7)."""
    heads = []
    for i in range(h):
        rows_q, rows_v = slice(i * dq, (i + 1) * dq), slice(i * dv, (i + 1) * dv)
        q = query @ module.query.weight[rows_q].T + module.query.bias[rows_q]
        k = keys @ module.key.weight[rows_q].T + module.key.bias[rows_q]
        v = values @ module.value.weight[rows_v].T + module.value.bias[rows_v]
        heads.append(torch.softmax(q @ k.transpose(1, 2) / dq**0.5, dim=-1) @ v)
    out: Tensor = torch.cat(heads, dim=-1) @ module.output.weight.T + module.output.bias
    return out


@given(
    h=st.integers(1, 4),
    dq=st.integers(1, 7),
    dv=st.integers(1, 7),
    width=st.integers(1, 9),
    memory=st.integers(1, 9),
    value=st.integers(1, 9),
    out=st.integers(1, 9),
    n=st.integers(1, 5),
    m=st.integers(1, 5),
)
@settings(max_examples=40, deadline=None)
def test_L0_7_free_sizes(
    h: int, dq: int, dv: int, width: int, memory: int, value: int, out: int, n: int, m: int
) -> None:
    """L0.7, L1.5, L1.6: any h, d̃_q, d̃_v, d_o and input widths, N ≠ M; equals the heads one by one."""
    module = randomise(
        MultiHeadAttention(
            width=width,
            heads=h,
            query_size=dq,
            value_size=dv,
            memory_width=memory,
            value_width=value,
            out_width=out,
        )
    )
    query, keys, values = torch.randn(2, n, width), torch.randn(2, m, memory), torch.randn(2, m, value)
    expected = heads_one_by_one(module, query, keys, values, h, dq, dv)
    torch.testing.assert_close(module(query, keys, values), expected, atol=1e-5, rtol=1e-5)


def test_L0_7_rejects_heads_that_are_mixed_up() -> None:
    """The wrong variant of L0.7: features dealt out to the heads in turn instead of slice by slice."""
    module = randomise(MultiHeadAttention(width=6, heads=2, query_size=3, value_size=4, out_width=5))
    x = torch.randn(1, 4, 6)
    expected = heads_one_by_one(module, x, x, x, 2, 3, 4)
    order = torch.tensor([0, 2, 4, 1, 3, 5])
    with torch.no_grad():
        module.query.weight.copy_(module.query.weight[order])
        module.query.bias.copy_(module.query.bias[order])
    assert not torch.allclose(module(x), expected, atol=1e-3)


def test_L1_5_the_scale_follows_the_size_of_a_head() -> None:
    """L1.5, L0.7: √d̃_q of the head, not √d of the token; the wrong scale is rejected."""
    module = randomise(MultiHeadAttention(width=12, heads=3))
    x = torch.randn(2, 5, 12)
    expected = heads_one_by_one(module, x, x, x, 3, 4, 4)
    torch.testing.assert_close(module(x), expected, atol=1e-5, rtol=1e-5)
    module.scale = 12**0.5
    assert not torch.allclose(module(x), expected, atol=1e-3)


def test_L1_6_heads_are_separate_attentions_concatenated() -> None:
    """L1.6: changing one head's weights changes only its slice of the concatenation."""
    module = randomise(MultiHeadAttention(width=12, heads=3, output=False))
    x = torch.randn(1, 5, 12)
    before = module(x)
    with torch.no_grad():
        module.query.weight[4:8] += 1.0
    changed = (module(x) - before).abs().amax((0, 1)) > 1e-6
    assert changed.tolist() == [False] * 4 + [True] * 4 + [False] * 4


def test_L2_4_the_column_convention_is_the_transpose() -> None:
    """L2.4: q = W_Q x for column vectors equals x W_Qᵀ for rows."""
    module = randomise(MultiHeadAttention(width=6, heads=2, bias=False))
    x = torch.randn(1, 4, 6)
    columns = module.query.weight @ x[0].T  # (d, n)
    torch.testing.assert_close(module.query(x)[0].T, columns)
    assert not torch.allclose(x[0] @ module.query.weight, columns.T)


def test_L2_5_the_score_has_reduced_rank() -> None:
    """L2.5: x_iᵀ(W_QᵀW_K)x_j is a multiplicative score whose matrix has rank ≤ d_k; a full one has more."""
    module = randomise(MultiHeadAttention(width=12, heads=4, bias=False))
    x = torch.randn(1, 20, 12)
    for head in range(4):
        rows = slice(head * 3, head * 3 + 3)
        matrix = module.query.weight[rows].T @ module.key.weight[rows]  # (d, d)
        assert torch.linalg.matrix_rank(matrix) == 3
        torch.testing.assert_close(
            x @ matrix @ x.transpose(1, 2),
            (x @ module.query.weight[rows].T) @ (x @ module.key.weight[rows].T).transpose(1, 2),
            atol=1e-4,
            rtol=1e-4,
        )
    whole = module.query.weight.T @ module.key.weight  # all heads together are no longer reduced
    assert torch.linalg.matrix_rank(whole) == 12


def test_L3_1_the_indexed_equations() -> None:
    """L3.1 (preset ttic): K heads, unscaled, no W_O, I = J/K; reference: einsum, 1e-6."""
    K, J, U, T = 3, 12, 5, 6
    I = J // K  # noqa: E741 - the problem's own letter
    module = randomise(
        MultiHeadAttention(width=J, heads=K, query_size=U, value_size=I, scale="none", output=False, bias=False)
    )
    h_in = torch.randn(1, T, J) * 0.5
    WQ = module.query.weight.view(K, U, J)
    WK = module.key.weight.view(K, U, J)
    WV = module.value.weight.view(K, I, J)
    query = torch.einsum("kuj,tj->ktu", WQ, h_in[0])
    key = torch.einsum("kuj,tj->ktu", WK, h_in[0])
    value = torch.einsum("kij,tj->kti", WV, h_in[0])
    alpha = torch.einsum("ktu,ksu->kts", query, key).softmax(-1)
    out = torch.einsum("kts,ksi->kti", alpha, value)
    expected = torch.cat(list(out), dim=-1)
    torch.testing.assert_close(module(h_in)[0], expected, atol=1e-6, rtol=1e-5)
    module.scale = "sqrt"
    assert not torch.allclose(module(h_in)[0], expected, atol=1e-3)


def test_L4_5_attention_without_projections() -> None:
    """L4.5: q = k = v = x, split over the heads: no weights at all."""
    module = MultiHeadAttention(width=8, heads=2, projections=False, output=False)
    assert not list(module.parameters())
    x = torch.randn(1, 5, 8)
    expected = torch.cat([torch.softmax(s @ s.mT / 2, dim=-1) @ s for s in x.split(4, dim=-1)], dim=-1)
    torch.testing.assert_close(module(x), expected)
    whole = torch.softmax(x @ x.mT / 8**0.5, dim=-1) @ x  # one head over all features is something else
    assert not torch.allclose(module(x), whole, atol=1e-3)


@pytest.mark.parametrize("score", ["dot", "multiplicative", "additive"])
@pytest.mark.parametrize("choice", ["soft", "hard"])
def test_every_score_meets_every_choice(score: str, choice: str) -> None:
    """Score × choice, against the formula of each score."""
    module = randomise(MultiHeadAttention(width=8, heads=2, score=score, choice=choice))  # type: ignore[arg-type]
    x, memory = torch.randn(2, 3, 8), torch.randn(2, 5, 8)
    q = module.query(x).view(2, 3, 2, 4).transpose(1, 2)
    k = module.key(memory).view(2, 5, 2, 4).transpose(1, 2)
    v = module.value(memory).view(2, 5, 2, 4).transpose(1, 2)
    if score == "additive":
        scores = torch.einsum("hd,bhnmd->bhnm", module.score.direction, torch.tanh(q[..., None, :] + k[:, :, None]))
    elif score == "multiplicative":
        scores = torch.einsum("bhnd,hde,bhme->bhnm", q, module.score.weight, k) / 2
    else:
        scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / 2
    best = torch.nn.functional.one_hot(scores.argmax(-1), 5).float()
    weights = scores.softmax(-1) if choice == "soft" else best
    expected = module.output((weights @ v).transpose(1, 2).flatten(2))
    torch.testing.assert_close(module(x, memory), expected, atol=1e-5, rtol=1e-5)


SCHEMES = {
    "none": lambda: None,
    "t5": lambda: randomise(BucketBias(heads=2, buckets=8, max_distance=6, both_ways=False)),
    "rope": lambda: RotaryPosition(head_size=4),
    "alibi": lambda: AlibiBias(heads=2),
    "shaw": lambda: randomise(ShawPosition(head_size=4, value_size=4, farthest=2, relative="keys")),
}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_the_fused_path_equals_the_explicit_one(scheme: str, padded: bool, causal: bool) -> None:
    """Both paths of the module, and watching the weights, give the same output."""
    module = randomise(MultiHeadAttention(width=8, heads=2))
    valid = torch.ones(2, 6, dtype=torch.bool)
    valid[1, 4:] = False
    positions = torch.arange(6)
    context = AttentionContext(
        valid=valid if padded else None,
        causal=causal,
        scheme=SCHEMES[scheme](),
        queries=positions,
        keys=positions,
    )
    x = torch.randn(2, 6, 8, requires_grad=True)
    module.path = "fused"
    fast = module(x, context=context)
    with torch.no_grad():  # biases of distances take another way where nothing is learnt
        torch.testing.assert_close(module(x, context=context), fast, atol=1e-6, rtol=1e-5)
    module.path = "explicit"
    slow = module(x, context=context)
    torch.testing.assert_close(slow, fast, atol=1e-6, rtol=1e-5)
    (fast_slope,), (slow_slope,) = (torch.autograd.grad(out.square().sum(), x) for out in (fast, slow))
    torch.testing.assert_close(fast_slope, slow_slope, atol=1e-5, rtol=1e-4)
    module.path = "auto"
    seen: list[Tensor] = []
    handle = module.weights.register_forward_hook(lambda _m, _i, weights: seen.append(weights))
    torch.testing.assert_close(module(x, context=context), fast, atol=1e-6, rtol=1e-5)
    handle.remove()
    assert seen[0].shape == (2, 2, 6, 6)
    torch.testing.assert_close(seen[0].sum(-1), torch.ones(2, 2, 6))
    module(x, context=context)
    assert len(seen) == 1  # nobody watches any more: the weights are not formed


@pytest.mark.parametrize("kind", ["t5", "alibi", "shaw"])
@pytest.mark.parametrize("causal", [False, True])
def test_nothing_of_all_pairs_is_held_in_training(kind: str, causal: bool) -> None:
    """What is kept for the gradient is no larger than the tokens, or the tables; on the explicit path it is."""
    n, width = 700, 8
    module = MultiHeadAttention(width=width, heads=2)
    scheme = SCHEMES[kind]()
    x, positions = torch.randn(1, n, width, requires_grad=True), torch.arange(n)

    def largest(path: Any) -> int:
        module.path = path
        kept: list[int] = []

        def note(tensor: Tensor) -> Tensor:
            kept.append(tensor.untyped_storage().nbytes() // tensor.element_size())
            return tensor

        context = AttentionContext(causal=causal, scheme=scheme, queries=positions, keys=positions)
        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            module(x, context=context)
        return max(kept)

    assert largest("fused") == n * width
    assert largest("explicit") >= n * n


BLOCKED = {
    "T5": lambda far: BucketBias(heads=2, buckets=8, max_distance=far),
    "T5 of the past": lambda far: BucketBias(heads=2, buckets=8, max_distance=far, both_ways=False),
    "Shaw keys": lambda far: ShawPosition(head_size=4, value_size=3, farthest=far, relative="keys"),
    "Shaw values": lambda far: ShawPosition(head_size=4, value_size=3, farthest=far, relative="values"),
    "Shaw": lambda far: ShawPosition(head_size=4, value_size=3, farthest=far),
}


@pytest.mark.parametrize("kind", BLOCKED)
@pytest.mark.parametrize("farthest", [6, 40])
@pytest.mark.parametrize("case", ["plain", "causal", "padded", "causal and padded", "memory", "later"])
def test_what_is_learnt_of_distances_acts_by_blocks(
    kind: str, farthest: int, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T5 and Shaw where no weights are held equal the explicit path, forwards and backwards, their tables included."""
    monkeypatch.setattr(blockwise, "BLOCK", 4)
    module = randomise(MultiHeadAttention(width=8, heads=2, value_size=3)).double().train()
    scheme = randomise(BLOCKED[kind](farthest)).double()
    x = torch.randn(2, 11, 8, dtype=torch.double)
    memory = torch.randn(2, 15, 8, dtype=torch.double) if case in ("memory", "later") else None
    keys = torch.arange(11 if memory is None else 15)
    queries = torch.arange(11) + (6 if case == "later" else 0)
    valid = torch.ones(2, len(keys), dtype=torch.bool)
    valid[1, 7:] = False
    hidden = valid if "padded" in case or case == "memory" else None

    def results(path: Any, shift: int = 0) -> list[Tensor]:
        module.path = path
        module.zero_grad()
        scheme.zero_grad()
        leaf = x.clone().requires_grad_()
        context = AttentionContext(
            valid=hidden, causal="causal" in case, scheme=scheme, queries=queries + shift, keys=keys
        )
        out = module(leaf, memory, context=context)
        out.square().sum().backward()
        return [out.detach(), leaf.grad, *(p.grad.clone() for p in (*module.parameters(), *scheme.parameters()))]

    held: list[Tensor] = []
    handle = module.weights.register_forward_pre_hook(lambda _module, inputs: held.append(*inputs))
    expected = results("explicit")
    assert len(held) == 1
    handle.remove()
    blocks = results("fused")
    for mine, other in zip(blocks, expected, strict=True):
        torch.testing.assert_close(mine, other, atol=1e-10, rtol=1e-8)
    with torch.no_grad():
        module.path = "fused"
        context = AttentionContext(valid=hidden, causal="causal" in case, scheme=scheme, queries=queries, keys=keys)
        torch.testing.assert_close(module(x, memory, context=context), expected[0], atol=1e-10, rtol=1e-8)
    if "causal" not in case:  # the wrong variant: positions that are off by one
        assert not torch.allclose(results("fused", shift=1)[0], expected[0], atol=1e-3)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("chunks", [(1,) * 7, (3, 1, 2, 1), (7,), (5, 2)])
def test_a_cache_is_right_at_every_offset(scheme: str, chunks: tuple[int, ...]) -> None:
    """Contract 2: fed in any chunks, cached causal attention equals the whole sequence at once."""
    module = randomise(MultiHeadAttention(width=8, heads=2))
    relative = SCHEMES[scheme]()
    x = torch.randn(3, 7, 8)
    positions = torch.arange(7)
    whole = module(x, context=AttentionContext(causal=True, scheme=relative, queries=positions, keys=positions))
    cache, parts, start = KeyValues(), [], 0
    for size in chunks:
        end = start + size
        context = AttentionContext(causal=True, scheme=relative, queries=positions[start:end], keys=positions[:end])
        with torch.no_grad():
            parts.append(module(x[:, start:end], context=context, cache=cache))
        start = end
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, atol=1e-6, rtol=1e-5)
    if scheme == "rope" and len(chunks) > 1:  # the wrong variant: every chunk starts at position 0 again
        cache, parts = KeyValues(), []
        for part in x.split(list(chunks), dim=1):
            size = part.shape[1]
            total = cache.length + size
            wrong = AttentionContext(causal=True, scheme=relative, queries=positions[:size], keys=positions[:total] * 0)
            with torch.no_grad():
                parts.append(module(part, context=wrong, cache=cache))
        assert not torch.allclose(torch.cat(parts, dim=1), whole, atol=1e-3)


@pytest.mark.parametrize("kind", BLOCKED)
@pytest.mark.parametrize("chunks", [(8, 3), (2, 7, 2)])
def test_a_cache_is_right_in_blocks(kind: str, chunks: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract 2 where position terms are computed in blocks: the causal mask aligns to the lower right there too."""
    monkeypatch.setattr(blockwise, "BLOCK", 4)
    module, scheme = randomise(MultiHeadAttention(width=8, heads=2, value_size=3)), randomise(BLOCKED[kind](5))
    x, positions, cache, start = torch.randn(2, 11, 8), torch.arange(11), KeyValues(), 0
    module.path = "explicit"
    whole = module(x, context=AttentionContext(causal=True, scheme=scheme, queries=positions, keys=positions))
    module.path = "fused"
    for size in chunks:
        end = start + size
        context = AttentionContext(causal=True, scheme=scheme, queries=positions[start:end], keys=positions[:end])
        with torch.no_grad():
            part = module(x[:, start:end], context=context, cache=cache)
        torch.testing.assert_close(part, whole[:, start:end], atol=1e-6, rtol=1e-5)
        start = end


def test_gradients_in_float64() -> None:
    """gradcheck of the whole module for every score and choice with a derivative."""
    for score, projections in itertools.product(("dot", "multiplicative", "additive"), (True, False)):
        module = MultiHeadAttention(width=4, heads=2, score=score, projections=projections).double()  # type: ignore[arg-type]
        x = torch.randn(1, 3, 4, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(lambda x, module=module: module(x, context=AttentionContext(causal=True)), (x,))


def test_a_head_norm_with_an_offset_starts_as_the_other_one() -> None:
    x = torch.randn(2, 5, 2, 16)
    other, norm = (
        MultiHeadAttention(width=32, heads=2, qk_norm="rmsnorm", qk_norm_unit_offset=offset).query_norm
        for offset in (False, True)
    )
    assert norm is not None
    assert other is not None
    assert torch.equal(norm(x), other(x))


def test_a_cache_grows_in_place_and_is_reordered() -> None:
    """The buffer doubles; selected rows keep their history, repeated rows become independent."""
    cache = KeyValues()
    keys, values = torch.randn(2, 3, 40, 4), torch.randn(2, 3, 40, 5)
    moved, pointers = 0, set()
    for step in range(40):
        seen_keys, seen_values = cache.append(keys[:, :, step : step + 1], values[:, :, step : step + 1])
        pointers.add(seen_keys.data_ptr())
        moved = len(pointers)
        assert torch.equal(seen_keys, keys[:, :, : step + 1])
        assert torch.equal(seen_values, values[:, :, : step + 1])
    assert moved <= 5  # 1, 16, 32, 64: not once a token
    assert cache.nbytes == 2 * 3 * 40 * (4 + 5) * 4
    cache.select(torch.tensor([1, 1, 0]))
    assert torch.equal(cache.view()[0], keys[[1, 1, 0]])
    assert torch.equal(cache.view()[1], values[[1, 1, 0]])
    cache.append(torch.zeros(3, 3, 1, 4), torch.zeros(3, 3, 1, 5))
    cache.view()[0][0] = 7.0
    assert torch.equal(cache.view()[0][1, :, :40], keys[1])


@pytest.mark.parametrize(("setting", "message"), [("score", "no score 'x'"), ("choice", "no choice 'x'")])
def test_names_that_do_not_exist_are_refused(setting: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As outside of the tests, whose type checker would be first."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(width=8, heads=2, **{setting: "x"})  # type: ignore[arg-type]


def test_dropout_acts_on_the_weights_of_both_paths_in_training_alone() -> None:
    module = randomise(MultiHeadAttention(width=8, heads=2, dropout=0.5))
    x = torch.randn(2, 6, 8)
    for path in ("auto", "explicit", "fused"):
        module.path = path
        module.train()
        assert not torch.equal(module(x), module(x))
        module.eval()
        assert torch.equal(module(x), module(x))


@torch.no_grad()
def test_a_hook_sees_the_weights_where_a_kernel_would_do_without_them() -> None:
    """Without gradients, and with many keys, the fused kernel is the usual path: a hook takes the explicit one."""
    module, seen = randomise(MultiHeadAttention(width=8, heads=2)), list[Tensor]()
    x = torch.randn(1, 40, 8)
    alone = module(x)
    with module.weights.register_forward_hook(lambda _module, _inputs, weights: seen.append(weights)):
        torch.testing.assert_close(module(x), alone, atol=1e-6, rtol=1e-5)
    (weights,) = seen
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 2, 40))
    module(x)
    assert len(seen) == 1


def test_masks_are_shared_by_calls_of_one_size_alone() -> None:
    """One context, asked for fewer queries over as many keys: the mask is another one."""
    context, device = AttentionContext(causal=True), torch.device("cpu")
    for queries in (2, 3, 2):
        assert torch.equal(context.mask(queries, 3, device), causal_mask(queries, 3))  # type: ignore[arg-type]


def test_a_cache_stays_outside_of_autograd() -> None:
    module = randomise(MultiHeadAttention(width=8, heads=2))
    cache = KeyValues()
    module(torch.randn(1, 2, 8), context=AttentionContext(causal=True), cache=cache)
    assert not any(part.requires_grad for part in cache.view())


def test_an_empty_cache_has_nothing_to_show() -> None:
    assert KeyValues().nbytes == 0
    assert Cache(2).nbytes == 0
    with pytest.raises(ValueError, match="empty"):
        KeyValues().view()
