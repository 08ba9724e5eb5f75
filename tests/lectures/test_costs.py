"""The formulas of the lectures against what runs, at random sizes; each rejects a formula that lacks a term."""

import pytest
import sympy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.attention import MultiHeadAttention, weigh
from clearhead.blocks import StandardFeedForward
from clearhead.costing import (
    attention_space,
    attention_work,
    letter,
    matmul_space,
    matmul_work,
    multihead_space,
    multihead_work,
    recurrent_layer,
    self_attention_layer,
)
from clearhead.costing.tracing import counted_macs
from clearhead.models import count_parameters
from tests.lectures.outcomes import observed

size = st.integers(2, 9)


@given(m=size, n=size, p=size)
@settings(max_examples=10, deadline=None)
def test_L0_4_a_matrix_product(m: int, n: int, p: int) -> None:
    """L0.4: (m×n)(n×p) takes mnp multiplications and leaves mp numbers."""
    left, right = torch.randn(m, n), torch.randn(n, p)
    assert matmul_work(m, n, p) == m * n * p == counted_macs(lambda: left @ right)
    assert matmul_space(m, n, p) == m * p == (left @ right).numel()
    assert matmul_work(m, n, p) != m * p


@given(n=size, m=size, dq=size, dv=size)
@settings(max_examples=10, deadline=None)
def test_L0_5_attention_takes_its_two_products(n: int, m: int, dq: int, dv: int) -> None:
    """L0.5: NMd_q and NMd_v, counted; the softmax takes 5M − 2 operations a row."""
    query, keys, values = torch.randn(n, dq), torch.randn(m, dq), torch.randn(m, dv)
    work = attention_work(n, m, dq, dv)
    assert work.macs == n * m * (dq + dv) == counted_macs(lambda: weigh(query, keys) @ values)
    assert work.choice == n * (5 * m - 2)
    assert work.macs != n * m * dq


@given(n=size, m=size, dv=size)
@settings(max_examples=10, deadline=None)
def test_L0_6_attention_makes_weights_and_results(n: int, m: int, dv: int) -> None:
    """L0.6: MN + Nd_v numbers."""
    weights = weigh(torch.randn(n, 4), torch.randn(m, 4))
    assert attention_space(n, m, 4, dv) == weights.numel() + (weights @ torch.randn(m, dv)).numel()
    assert attention_space(n, m, 4, dv) != n * m


SIZES = {"h": 3, "d_q": 5, "d_v": 7, "head_q": 4, "head_v": 6, "d_o": 8}


def test_L0_8_multi_head_attention_term_by_term() -> None:
    """L0.8: projections, attention and output, symbolic; the demonstration counts five random sizes."""
    N, M = letter("N"), letter("M")
    work = multihead_work(N, M, **SIZES)
    assert sympy.expand(work.projections - 3 * (5 * 4 * (M + N) + 7 * 6 * M)) == 0
    assert sympy.expand(work.attention - 3 * N * M * (4 + 6)) == 0
    assert sympy.expand(work.output - N * 3 * 6 * 8) == 0
    assert sympy.expand(work.total - work.projections - work.attention) != 0
    assert observed("L0.8", "formula − multiplications counted") == 0


def test_L0_9_multi_head_attention_makes_what_the_formula_says() -> None:
    """L0.9: each term of the space; a single matrix of weights for all heads would be too little."""
    N, M = letter("N"), letter("M")
    space = multihead_space(N, M, **SIZES)
    assert sympy.expand(space.total - (3 * (4 * (M + N) + 6 * M) + 3 * (M * N + N * 6) + N * 8)) == 0
    assert sympy.expand(space.attention - (M * N + 3 * N * 6)) != 0


def test_L2_3_attention_is_cheaper_below_n_equal_to_d() -> None:
    """L2.3: without projections, attention and a recurrent layer cost the same at n = d."""
    for n, cheaper in ((31, True), (32, False), (33, False)):
        assert (self_attention_layer(n, 32).mixing < recurrent_layer(n, 32).macs) == cheaper
    assert self_attention_layer(32, 32).mixing == recurrent_layer(32, 32).macs


@pytest.mark.parametrize("heads", [1, 2, 4, 8])
def test_L2_13_heads_share_the_products_and_not_the_softmax(heads: int) -> None:
    """L2.13: 4nd² + 2n²d for every number of heads, and hn² weights."""
    module = MultiHeadAttention(width=16, heads=heads, bias=False)
    module.path = "explicit"
    seen: list[int] = []
    module.weights.register_forward_hook(lambda _module, _inputs, weights: seen.append(weights.numel()))
    assert counted_macs(lambda: module(torch.randn(1, 10, 16))) == 4 * 10 * 16**2 + 2 * 10**2 * 16
    assert seen[-1] == heads * 10**2


def test_L4_1_the_example_itself() -> None:
    """L4.1: six multiplications, three parameters; counting FLOPs would say twelve."""
    column = torch.nn.Linear(3, 1, bias=False)
    rows = torch.tensor([[1.0, 2, 3], [4, 5, 6]])
    assert counted_macs(lambda: column(rows)) == matmul_work(2, 3, 1) == 6
    assert count_parameters(column) == 3


def test_L4_2_rows_of_the_derivation() -> None:
    """L4.2: nd²/h for each projection of a head, n²d/h for its scores and for its values, nd² for the output."""
    n, d, h = letter("n"), letter("d"), letter("h")
    work = multihead_work(n, n, h=h, d_q=d, d_v=d, head_q=d / h, head_v=d / h, d_o=d)
    assert sympy.expand(work.projections / h - 3 * n * d**2 / h) == 0
    assert sympy.expand(work.attention / h - 2 * n**2 * d / h) == 0
    assert sympy.expand(work.output - n * d**2) == 0
    assert sympy.expand(work.output - n * d**2 / h) != 0


@given(n=size, d=st.sampled_from([8, 16, 24]))
@settings(max_examples=6, deadline=None)
def test_L4_3_self_attention(n: int, d: int) -> None:
    """L4.3: 4nd² + 2n²d and 4d²; the printed n²d alone is too little."""
    module = MultiHeadAttention(width=d, heads=4, bias=False)
    module.path = "explicit"
    assert counted_macs(lambda: module(torch.randn(1, n, d))) == 4 * n * d**2 + 2 * n**2 * d
    assert count_parameters(module) == 4 * d**2
    assert self_attention_layer(n, d).macs != 2 * n**2 * d


@pytest.mark.parametrize(("hidden", "holds"), [(32, True), (16, False), (40, False)])
def test_L4_4_feed_forward(hidden: int, holds: bool) -> None:
    """L4.4: 8nd² and 8d², if and only if d_ff = 4d."""
    net = StandardFeedForward(width=8, hidden=hidden, bias=False)
    assert (counted_macs(lambda: net(torch.randn(1, 5, 8))) == 8 * 5 * 8**2) is holds
    assert (count_parameters(net) == 8 * 8**2) is holds
