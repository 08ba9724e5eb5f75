"""The lectures' own expressions, derived from the closed forms, term by term; each also rejects a wrong one."""

from typing import Any

import pytest
import sympy
import torch
from sympy import expand

from clearhead.attention import MultiHeadAttention
from clearhead.costing import (
    B,
    attention_space,
    attention_work,
    convolution_layer,
    cost,
    letter,
    lg,
    matmul_space,
    matmul_work,
    multihead_space,
    multihead_work,
    n,
    recurrent_layer,
    restricted_layer,
    self_attention_layer,
    span_of_attention,
    span_of_scores,
)
from clearhead.costing.crossovers import compare, quadratic_against_rest
from clearhead.costing.forms.views import asymptotic, printed
from clearhead.costing.lectures import KERNEL, LENGTH, NEIGHBOURS, WIDTH, lecture_tables, table_1
from clearhead.costing.tracing import counted_macs, trace
from tests.costing.mechanisms import wrong_variants

N, M, h, d, d_ff = letter("N"), letter("M"), letter("h"), letter("d"), letter("d_ff")
d_q, d_v, q, v, d_o = (letter(name) for name in ("d_q", "d_v", "q", "v", "d_o"))


class Heads(torch.nn.Module):
    """Multi-head attention over a memory whose values have a width of their own."""

    def __init__(self, **sizes: Any) -> None:
        super().__init__()
        self.heads = MultiHeadAttention(**sizes, bias=False)
        self.heads.path = "explicit"

    def forward(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.heads(queries, keys, values)
        return result


def test_L0_4_a_product_takes_mnp_multiplications_and_mp_places() -> None:
    """L0.4: symbolically, and as torch runs it."""
    a, b, c = letter("a"), letter("b"), letter("c")
    assert (matmul_work(a, b, c), matmul_space(a, b, c)) == (a * b * c, a * c)
    assert matmul_work(a, b, c) not in (a * c, a * b * c * 2)
    assert counted_macs(lambda: torch.ones(5, 7) @ torch.ones(7, 3)) == matmul_work(5, 7, 3) == 105


def test_L0_5_attention_takes_NMdq_then_NM_then_NMdv() -> None:
    """L0.5: scores, choice, values; all O(NMd_q + NMd_v)."""
    work = attention_work(N, M, d_q, d_v)
    assert (work.scores, work.values) == (N * M * d_q, N * M * d_v)
    assert work.choice == 5 * N * M - 2 * N
    assert asymptotic(work.choice) == N * M
    assert asymptotic(work.total) == N * M * d_q + N * M * d_v
    assert asymptotic(work.total - work.values) != N * M * d_q + N * M * d_v


def test_L0_6_attention_makes_MN_plus_Ndv_numbers() -> None:
    """L0.6: the weights and the result; printed d_n, which must be d_v."""
    assert attention_space(N, M, d_q, d_v) == M * N + N * d_v
    assert attention_space(N, M, d_q, d_v) != M * N + N * d_q


def test_L0_8_multihead_attention_term_by_term() -> None:
    """L0.8: projections + attention + output, equal term by term, and to what the traced module multiplies."""
    work = multihead_work(N, M, h=h, d_q=d_q, d_v=d_v, head_q=q, head_v=v, d_o=d_o)
    assert expand(work.projections - h * (d_q * q * (M + N) + d_v * v * M)) == 0
    assert expand(work.attention - h * (N * M * q + N * M * v)) == 0
    assert expand(work.output - N * h * v * d_o) == 0
    sizes = {
        "width": 6,
        "memory_width": 6,
        "value_width": 5,
        "heads": 3,
        "query_size": 4,
        "value_size": 7,
        "out_width": 9,
    }
    tensors = [torch.zeros(2, 8, 6), torch.zeros(2, 11, 6), torch.zeros(2, 11, 5)]
    graph = trace(Heads(**sizes), tensors, [(B, N, None), (B, M, None), (B, M, None)])
    numbers = {h: 3, d_q: 6, d_v: 5, q: 4, v: 7, d_o: 9}
    assert expand(B * work.total.subs(numbers) - graph.macs()) == 0
    assert all(expand(B * wrong.subs(numbers) - graph.macs()) != 0 for wrong in wrong_variants(work.total))
    one = multihead_work(N, M, h=1, d_q=d_q, d_v=d_v, head_q=q, head_v=v, d_o=d_o)
    assert one.attention == N * M * q + N * M * v  # h = 1, as printed


def test_L0_9_multihead_attention_makes_so_many_numbers() -> None:
    """L0.9: term by term; the h = 1 case is MN + N·d̃_v."""
    space = multihead_space(N, M, h=h, d_q=d_q, d_v=d_v, head_q=q, head_v=v, d_o=d_o)
    assert expand(space.projections - h * (q * (M + N) + v * M)) == 0
    assert expand(space.attention - h * (M * N + N * v)) == 0
    assert space.output == N * d_o
    assert multihead_space(N, M, h=1, d_q=d_q, d_v=d_v, head_q=q, head_v=v, d_o=d_o).attention == M * N + N * v
    assert space.attention != M * N + N * h * v  # the weights are there for every head


def test_L4_1_the_example_takes_6_multiplications_and_3_parameters() -> None:
    """L4.1: (2×3)(3×1), counted as it runs; the matrix that is learned has 3 numbers."""
    left, learned = torch.arange(1.0, 7.0).view(2, 3), torch.nn.Parameter(torch.tensor([[1.0], [2.0], [3.0]]))
    assert counted_macs(lambda: left @ learned) == matmul_work(2, 3, 1) == 6
    assert learned.numel() == 3
    assert (left @ learned).flatten().tolist() == [14, 32]
    assert matmul_work(2, 3, 1) != matmul_work(2, 3, 2)


def test_L4_2_a_head_costs_its_share_row_by_row() -> None:
    """L4.2: projections nd²/h each, scores and values n²d/h each, output nd²."""
    head = multihead_work(n, n, h=1, d_q=d, d_v=d, head_q=d / h, head_v=d / h, d_o=d)
    assert head.projections == 3 * n * d**2 / h
    assert head.attention == 2 * n**2 * d / h
    whole = multihead_work(n, n, h=h, d_q=d, d_v=d, head_q=d / h, head_v=d / h, d_o=d)
    assert whole.output == n * d**2
    assert (whole.projections, whole.attention) == (h * head.projections, h * head.attention)
    assert head.projections != n * d**2 / h


def test_L2_13_heads_of_size_d_over_h_multiply_as_much_but_the_softmax_works_h_times() -> None:
    """L2.13: the same matrix products whatever h; the softmax, and its memory, grow with h."""
    one, four = (cost("ttic", f"model.heads={heads}")["encoder"]["layers"]["attention"] for heads in (1, 4))
    assert one.macs == four.macs
    softmax = 5 * n**2 - 2 * n
    assert expand(four.operations.numbers - one.operations.numbers - 3 * B * softmax) == 0
    assert four.operations != one.operations


def test_L4_3_self_attention_takes_4nd2_plus_2n2d_and_4d2_parameters() -> None:
    """L4.3: exact and as printed; the slide's O(n²d) drops the projections."""
    attention = cost("transformer-base")["encoder"]["layers"]["attention"]
    assert printed(attention.macs).expression == 4 * n * d**2 + 2 * n**2 * d
    assert printed(attention.matrices).expression == 4 * d**2
    assert attention.parameters.expression - attention.matrices.expression == 4 * d
    assert asymptotic(printed(attention.macs).expression) == n**2 * d + n * d**2 != n**2 * d
    assert attention.flops == attention.macs * 2


def test_L4_4_the_net_takes_8nd2_and_8d2_parameters_where_d_ff_is_4d() -> None:
    """L4.4: assumes d_ff = 4d; elsewhere it is not what is printed."""
    net = cost("transformer-base")["encoder"]["layers"]["feedforward"]
    assert net.macs.expression == 2 * B * n * d * d_ff
    assert printed(net.macs).expression == 8 * n * d**2
    assert printed(net.matrices).expression == 8 * d**2
    other = cost("transformer-base", "model.feedforward.width=1024")["encoder"]["layers"]["feedforward"]
    assert printed(other.macs).expression == 2 * n * d * d_ff


def test_L4_5_attention_without_projections_beats_a_recurrent_layer_up_to_n_equal_d() -> None:
    """L4.5: three counts side by side: 4nd² + 2n²d, 2n²d without projections, 2nd² recurrent; they cross at n = d."""
    bare = cost("ttic", "model.attention.projections=false")["encoder"]["layers"]["attention"]
    assert printed(bare.macs).expression == 2 * n**2 * d
    recurrent = recurrent_layer(n, d).macs
    assert sympy.solve(bare.macs.expression.subs(B, 1) - recurrent, n) == [d]
    assert expand(self_attention_layer(n, d).macs - recurrent - 2 * n * d**2 - 2 * n**2 * d) == 0  # never cheaper


def test_L4_6_table_1_is_what_the_layers_do() -> None:
    """L4.6: work, sequential products and longest paths, each as measured on a layer that runs."""
    sizes = {n: LENGTH, d: WIDTH, letter("k"): KERNEL, letter("r"): NEIGHBOURS}
    rows = {row[0]: row for row in table_1().rows}
    for layer in (
        self_attention_layer(n, d),
        recurrent_layer(n, d),
        convolution_layer(n, d, letter("k")),
        restricted_layer(n, d, letter("r")),
    ):
        row = rows[layer.name]
        assert row[4] == f"{int(layer.macs.subs(sizes)):,}"
        assert row[9] == str(int(layer.path.subs(sizes)))
        half, whole = map(int, str(row[6]).split(", "))
        assert whole - half == (LENGTH // 2 if layer.sequential == n else 0)
        assert all(row[4] != f"{int(wrong.subs(sizes)):,}" for wrong in wrong_variants(layer.macs))


def test_L2_1_interaction_distance_is_one_for_attention_and_the_length_for_a_recurrent_layer() -> None:
    """L2.1: O(1) against O(l); the recurrent layer is not O(1)."""
    assert self_attention_layer(n, d).path == 1 == cost("bert-base").path.at()  # type: ignore[union-attr]
    assert recurrent_layer(n, d).path == n != 1


def test_L2_3_quadratic_work_overtakes_the_rest_of_a_layer_at_n_equal_6d() -> None:
    """L2.3: "lower time complexity", yet quadratic: with d_ff = 4d the n² terms overtake all else at n = 6d."""
    found = quadratic_against_rest(cost("bert-base"))
    (crossing,) = found.crossings
    assert crossing.formula == 2 * d + d_ff
    assert crossing.at == 6 * 768 + 1
    assert found.equal_at(crossing) == "n = 2·d + d_ff = 6·d = 4,608"
    before, after = found.at(6 * 768 - 1), found.at(6 * 768 + 1)
    assert before[0] < before[1]
    assert after[0] > after[1]
    # against a recurrent layer of 2nd², attention's own products cross at n = d
    work = attention_work(n, n, d, d).macs
    assert sympy.solve(work - recurrent_layer(n, d).macs, n) == [d]


def test_L2_14_linformer_is_linear_and_beats_full_attention_from_n_equal_2k() -> None:
    """L2.14: 4nd² + 4nkd; it crosses 4nd² + 2n²d at n = 2k."""
    full = cost("bert-base", "model.position.size=100000")
    sizes = ["model.attention.kind=linformer", "model.attention.rank=64", "model.position.size=100000"]
    few = cost("bert-base", *sizes)
    work = printed(few["encoder"]["layers"]["attention"].macs).expression
    assert expand(work - 4 * n * d**2 - 4 * n * letter("k") * d) == 0
    assert (asymptotic(full.macs.expression, [n]), asymptotic(few.macs.expression, [n])) == (n**2, n)
    (crossing,) = compare(full, few, what="work", names=("full", "linformer")).crossings
    assert (crossing.at, crossing.cheaper, crossing.formula) == (129, "linformer", 2 * letter("k"))
    (kept,) = compare(full, few, what="memory", names=("full", "linformer")).crossings
    assert kept.cheaper == "linformer"


def test_the_answers_of_L3_are_the_asymptotic_views() -> None:
    """O(ln T + ln U), O(U + ln T), O(ln T + ln J), and O(J + T) where the lecture says O(J + ln T)."""
    T, J, K, U = (letter(name) for name in "TJKU")
    assert asymptotic(span_of_scores(T, U)) == lg(T) + lg(U)
    assert asymptotic(span_of_scores(T, U, serial=True)) == U + lg(T)
    assert asymptotic(span_of_attention(T, J, J / K)) == lg(T) + lg(J)
    assert asymptotic(span_of_attention(T, J, J / K, serial=True)) == J + T


def test_the_tables_measure_what_they_print() -> None:
    """In every row the number of the formula is the measured one."""
    modules, _, parallel = lecture_tables().sheets
    assert [row[6] for row in modules.rows] == ["0"] * 3
    assert [row[4] for row in parallel.rows] == [row[5] for row in parallel.rows]
    assert [row[3] for row in modules.rows] == ["2·n²·d + 4·n·d²", "8·n·d²", "2·n²·d"]


@pytest.mark.parametrize("option", ["model.attention.projections=true", "model.attention.projections=false"])
def test_facts_of_the_field(option: str) -> None:
    """Decoder layer 6md² + 2nd² + 2m²d + 2mnd + 2m·d·d_ff; a cached step 4d² + 2td + 2d·d_ff, + 2d² + 2nd across."""
    from clearhead.costing import m, t

    base = cost("transformer-base", option)
    layer = printed(base["decoder"]["layers"].macs).expression.subs(d_ff, 4 * d)
    step = base.step["decoder"]["layers"].macs.expression.subs({B: 1, d_ff: 4 * d})
    if option.endswith("true"):
        assert expand(layer - (6 * m * d**2 + 2 * n * d**2 + 2 * m**2 * d + 2 * m * n * d + 8 * m * d**2)) == 0
        assert expand(step - (6 * d**2 + 2 * t * d + 2 * n * d + 8 * d**2)) == 0
        causal = base["decoder"]["layers"]["attention"].causal_macs.expression.subs(B, 1)
        assert expand(causal - (4 * m * d**2 + m * (m + 1) * d)) == 0
    else:
        assert expand(layer - (2 * m * d**2 + 2 * m**2 * d + 2 * m * n * d + 8 * m * d**2)) == 0
