"""Attention over a pool of candidates, against loops that follow the lectures letter by letter."""

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from clearhead.attention import additive, attend, causal_mask, choose, fused, fused_by_distance, weigh


def loop(query: Tensor, keys: Tensor, values: Tensor, divisor: float, pick: str = "soft") -> Tensor:
    """Σ_i α(q, k_i) v_i, one query and one candidate at a time (L1.1)."""
    rows = []
    for q in query:
        scores = [float(sum(q[j] * k[j] for j in range(len(q)))) / divisor for k in keys]
        if pick == "soft":
            top = max(scores)
            weights = [math.exp(score - top) for score in scores]
        else:
            weights = [float(index == scores.index(max(scores))) for index in range(len(scores))]
        rows.append(sum(weight * v for weight, v in zip(weights, values, strict=True)) / sum(weights))
    return torch.stack(rows)


def test_L1_1_one_query_over_a_pool_of_candidates() -> None:
    """L1.1: a bare query, keys and values; reference: a loop over the candidates."""
    query, keys, values = torch.randn(4), torch.randn(6, 4), torch.randn(6, 3)
    expected = loop(query[None], keys, values, divisor=2.0)[0]
    torch.testing.assert_close(attend(query, keys, values), expected)
    wrong = attend(query, keys[:-1], values[:-1])  # a sum that misses its last candidate
    assert not torch.allclose(wrong, expected)
    pools, contents = torch.randn(3, 6, 4), torch.randn(3, 6, 2)
    many = attend(query, pools, contents)  # one query, several pools
    assert many.shape == (3, 2)
    torch.testing.assert_close(many[1], attend(query, pools[1], contents[1]))


@pytest.mark.parametrize(("n", "m"), [(5, 7), (7, 5), (1, 6), (6, 1)])
def test_L0_2_queries_over_another_number_of_keys(n: int, m: int) -> None:
    """L0.2: a(QKᵀ/√d_q)V with N ≠ M; V has M rows."""
    query, keys, values = torch.randn(n, 8), torch.randn(m, 8), torch.randn(m, 3)
    expected = loop(query, keys, values, divisor=math.sqrt(8))
    torch.testing.assert_close(attend(query, keys, values), expected, atol=1e-6, rtol=1e-5)
    if m > 1:
        assert not torch.allclose(attend(query, keys, values, scale="dim"), expected, atol=1e-3)


def test_L0_3_soft_and_hard_choice() -> None:
    """L0.3: hard attention is exactly one-hot forward; its gradient is the softmax's (straight-through)."""
    scores = torch.randn(64, 9, requires_grad=True)
    hard = choose(scores, choice="hard")
    assert set(hard.detach().unique().tolist()) == {0.0, 1.0}  # to the last bit
    assert torch.equal(hard.detach().argmax(-1), scores.argmax(-1))
    direction = torch.randn(64, 9)
    (hard_gradient,) = torch.autograd.grad((hard * direction).sum(), scores)
    (soft_gradient,) = torch.autograd.grad((choose(scores) * direction).sum(), scores)
    torch.testing.assert_close(hard_gradient, soft_gradient)
    assert hard_gradient.abs().max() > 0

    soft = scores.softmax(-1)
    onehot = torch.nn.functional.one_hot(scores.argmax(-1), 9).float()
    wrong = (onehot + soft) - soft  # the other order of the same sum loses the last bits
    assert not torch.equal(wrong, onehot)


def test_hard_choice_takes_the_first_of_equal_scores() -> None:
    """Edge case: ties."""
    assert choose(torch.zeros(2, 5), choice="hard").tolist() == [[1.0, 0, 0, 0, 0]] * 2


def test_hard_attention_matches_the_loop() -> None:
    """L0.3 on whole sequences."""
    query, keys, values = torch.randn(5, 4), torch.randn(7, 4), torch.randn(7, 3)
    torch.testing.assert_close(attend(query, keys, values, choice="hard"), loop(query, keys, values, 2.0, pick="hard"))


def test_L2_9_variance_of_the_scores() -> None:
    """L2.9, L4.8: at d = 64 the raw score has variance 64, over √d 1, over d 1/64."""
    query, keys = torch.randn(4000, 64), torch.randn(500, 64)
    raw = query @ keys.T
    for scale, expected in (("none", 64.0), ("sqrt", 1.0), ("dim", 1 / 64), (4.0, 4.0)):
        seen: list[Tensor] = []

        def spy(q: Tensor, k: Tensor, seen: list[Tensor] = seen) -> Tensor:
            seen.append(q @ k.T)
            return seen[-1]

        weights = weigh(query, keys, score=spy, scale=scale)  # type: ignore[arg-type]
        # the scores that went into the softmax, recovered up to a constant per row
        scores = weights.double().log()
        scores = scores - scores.mean(-1, keepdim=True)
        assert float(scores.var()) == pytest.approx(expected, rel=0.1), scale
    assert float(raw.var()) == pytest.approx(64, rel=0.1)


def test_L3_2_scores_sum_over_features_not_positions() -> None:
    """L3.2: α = e^score / Z with score = Σ_u Query[u] Key[u]; the handwritten Σ_j over positions is wrong."""
    query, keys = torch.randn(1, 5, 4), torch.randn(1, 5, 4)
    score = torch.einsum("btu,bsu->bts", query, keys)
    expected = score.exp() / score.exp().sum(-1, keepdim=True)
    torch.testing.assert_close(weigh(query, keys, scale="none"), expected)
    square, other = torch.randn(1, 4, 4), torch.randn(1, 4, 4)
    over_positions = torch.einsum("bju,bjv->buv", square, other)  # as many features as positions, so that it fits
    assert not torch.allclose(over_positions.softmax(-1), weigh(square, other, scale="none"), atol=1e-2)


def test_L2_6_weights_are_a_rolling_average() -> None:
    """L2.6: rows are ≥ 0 and sum to 1, so the output stays inside the values' range."""
    query, keys, values = torch.randn(2, 6, 4), torch.randn(2, 8, 4), torch.randn(2, 8, 3)
    weights = weigh(query, keys)
    assert (weights >= 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 6))
    output = attend(query, keys, values)
    assert (output <= values.amax(1, keepdim=True) + 1e-6).all()
    assert (output >= values.amin(1, keepdim=True) - 1e-6).all()
    wrong = (query @ keys.mT / 2).exp()  # without its normaliser Z it is no average
    assert not torch.allclose(wrong.sum(-1), torch.ones(2, 6), atol=1e-2)


def test_additive_score_matches_a_loop() -> None:
    """Bahdanau's score u·tanh(q + k), one pair at a time."""
    query, keys, direction = torch.randn(4, 5), torch.randn(6, 5), torch.randn(5)
    expected = torch.stack([torch.stack([direction @ torch.tanh(q + k) for k in keys]) for q in query])
    torch.testing.assert_close(additive(query, keys, direction), expected)
    values = torch.randn(6, 2)
    score = partial(additive, direction=direction)
    torch.testing.assert_close(attend(query, keys, values, score=score, scale="none"), expected.softmax(-1) @ values)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("d", "e"), [(8, 8), (6, 10)])
def test_fused_equals_explicit(masked: bool, biased: bool, d: int, e: int) -> None:
    """The two paths are held equal, values and gradients, with rows that may look nowhere."""
    mask = torch.rand(2, 1, 5, 7) > 0.4 if masked else None
    if mask is not None:
        mask[0, :, 2] = False

    def run(path: Callable[..., Tensor]) -> list[Tensor]:
        torch.manual_seed(1)
        query = torch.randn(2, 3, 5, d, requires_grad=True)
        keys = torch.randn(2, 3, 7, d, requires_grad=True)
        values = torch.randn(2, 3, 7, e, requires_grad=True)
        bias = torch.randn(3, 5, 7, requires_grad=True) if biased else None
        output = path(query, keys, values, mask=mask, bias=bias)
        leaves = [query, keys, values] + ([bias] if bias is not None else [])
        return [output.detach(), *torch.autograd.grad((output * output.detach().sin()).sum(), leaves)]

    explicit = run(lambda q, k, v, mask, bias: weigh(q, k, mask=mask, bias=bias) @ v)
    for mine, other in zip(run(fused), explicit, strict=True):
        torch.testing.assert_close(mine, other, atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("choice", ["soft", "hard"])
@pytest.mark.parametrize("path", ["fused", "explicit"])
def test_a_row_that_may_look_nowhere_gives_zero_and_zero_gradient(path: str, choice: str) -> None:
    """Edge case: fully masked rows; a float mask of finfo.min, the usual way, gives the mean of the values instead."""
    query, keys = torch.randn(1, 2, 3, 4, requires_grad=True), torch.randn(1, 2, 5, 4, requires_grad=True)
    values = torch.randn(1, 2, 5, 4, requires_grad=True)
    mask = torch.ones(1, 1, 3, 5, dtype=torch.bool)
    mask[..., 1, :] = False
    if path == "fused":
        output = attend(query, keys, values, mask=mask, choice=choice)  # type: ignore[arg-type]
    else:
        output = weigh(query, keys, mask=mask, choice=choice) @ values  # type: ignore[arg-type]
    assert (output[..., 1, :] == 0).all()
    assert (output[..., 0, :] != 0).all()
    for gradient in torch.autograd.grad(output[..., 1, :].sum(), (query, keys, values), retain_graph=True):
        assert (gradient == 0).all()
    for gradient in torch.autograd.grad(output.square().sum(), (query, keys, values)):
        assert gradient.isfinite().all()
    wrong = torch.nn.functional.scaled_dot_product_attention(
        query, keys, values, attn_mask=torch.zeros(3, 5).masked_fill(~mask[0, 0], torch.finfo(torch.float).min)
    )
    assert (wrong[..., 1, :] != 0).any()


def test_gradients_in_float64() -> None:
    """gradcheck of the explicit and fused paths, masked and biased."""
    query, keys = (torch.randn(1, 2, n, 3, dtype=torch.float64, requires_grad=True) for n in (3, 4))
    values = torch.randn(1, 2, 4, 2, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    mask = torch.rand(1, 1, 3, 4) > 0.3
    for path in (fused, lambda q, k, v, mask, bias: weigh(q, k, mask=mask, bias=bias) @ v):
        assert torch.autograd.gradcheck(
            lambda q, k, v, b, path=path: path(q, k, v, mask=mask, bias=b), (query, keys, values, bias)
        )


def test_L1_9_the_causal_mask_aligns_to_the_lower_right() -> None:
    """L1.9 with a cache: the queries are the last of the keys; torch's is_causal would align them to the first."""
    assert causal_mask(3, 3).tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    assert causal_mask(2, 4).tolist() == [[True, True, True, False], [True, True, True, True]]
    query, keys, values = torch.randn(1, 1, 2, 4), torch.randn(1, 1, 4, 4), torch.randn(1, 1, 4, 4)
    right = attend(query, keys, values, mask=causal_mask(2, 4))
    top_left = torch.nn.functional.scaled_dot_product_attention(query, keys, values, is_causal=True)
    assert not torch.allclose(right, top_left, atol=1e-3)


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (5, 5), (3, 8), (8, 3)])
def test_a_bias_of_distances_is_never_spread(queries: int, keys: int) -> None:
    """Reference: the bias of every pair, written out; read in the wrong direction it is another."""
    query, key, value = torch.randn(2, 3, queries, 4), torch.randn(2, 3, keys, 4), torch.randn(2, 3, keys, 5)
    bias = torch.randn(3, queries + keys - 1)
    pairs = torch.stack([bias[:, i : i + keys].flip(1) for i in range(queries)], dim=1)  # i − j is i at the first key
    expected = (query @ key.mT / 2 + pairs).softmax(-1) @ value
    torch.testing.assert_close(fused_by_distance(query, key, value, bias), expected, atol=1e-6, rtol=1e-5)
    if keys > 1:
        assert not torch.allclose(fused_by_distance(query, key, value, bias.flip(1)), expected, atol=1e-3)
