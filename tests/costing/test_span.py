"""Span: the longest path over traced graphs, with stated spans of every operator, for lengths up to 4096."""

import pytest
import torch
from sympy import expand

from clearhead.attention import MultiHeadAttention
from clearhead.blocks import LayerNorm, StandardFeedForward
from clearhead.costing import B, letter, lg, span_of_attention, span_of_dot, span_of_scores, span_of_softmax
from clearhead.costing.tracing import Traced, trace
from tests.costing.mechanisms import wrong_variants

T, J, U, K = letter("T"), 24, 6, 4


def layer(length: int, *, open_length: bool) -> Traced:
    """The layer of L3.1: unscaled, no biases, no W_O."""
    attention = MultiHeadAttention(width=J, heads=K, scale="none", bias=False, output=False).eval()
    attention.path = "explicit"
    return trace(attention, [torch.zeros(2, length, J)], [(B, T if open_length else None, None)])


def test_L3_4_the_layer_takes_log_T_plus_log_J_and_serial_dot_products_take_J_plus_T() -> None:
    """L3.4: 6 + ⌈log₂ J⌉ + ⌈log₂ U⌉ + 3⌈log₂ T⌉; in practice J + U + T + …, as Out is a dot product over T too."""
    graph = layer(7, open_length=True)
    tree, serial = span_of_attention(T, J, U), span_of_attention(T, J, U, serial=True)
    assert expand(graph.span - tree) == 0
    assert expand(graph.serial_span - serial) == 0
    assert tree == 6 + lg(J) + lg(U) + 3 * lg(T)
    assert serial == J + U + T + 2 * lg(T) + 3
    for length in range(1, 4097):
        assert graph.span.xreplace({T: length}) == 6 + 5 + 3 + 3 * (length - 1).bit_length()
    for wrong in (tree - lg(J), tree - lg(T), tree + 1, serial - T):
        assert expand(graph.span - wrong) != 0
        assert expand(graph.serial_span - wrong) != 0


@pytest.mark.parametrize("length", [2, 3, 33, 1000, 4096])
def test_L3_4_graphs_of_one_length_agree(length: int) -> None:
    """The same with nothing open: the graph of exactly this length."""
    graph = layer(length, open_length=False)
    assert graph.span == span_of_attention(length, J, U)
    assert graph.serial_span == span_of_attention(length, J, U, serial=True)
    assert graph.span != span_of_attention(2 * length, J, U)


def test_L3_3_scores_and_softmax_take_log_U_plus_log_T() -> None:
    """L3.3: 1 + ⌈log₂ U⌉ for the scores, then 2⌈log₂ T⌉ + 3, as a stable softmax has a maximum too; serial U + …"""

    class Softmax(torch.nn.Module):
        def forward(self, query: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
            return (query @ keys.transpose(-1, -2)).softmax(-1)

    graph = trace(Softmax(), [torch.zeros(7, U), torch.zeros(7, U)], [(T, None), (T, None)])
    assert expand(graph.span - span_of_scores(T, U)) == 0
    assert expand(graph.serial_span - span_of_scores(T, U, serial=True)) == 0
    assert span_of_scores(T, U) == span_of_dot(U) + span_of_softmax(T) == 1 + 3 + 2 * lg(T) + 3
    assert span_of_scores(T, U, serial=True) == U + 2 * lg(T) + 3
    # the lecture's Z alone, without the maximum, is one tree short
    assert expand(graph.span - (1 + lg(U) + lg(T) + 2)) == lg(T) + 1


def test_L3_6_two_dimensions_are_T_equal_to_XY() -> None:
    """L3.6: O(ln XY + ln J), the same layer over X·Y positions."""
    X, Y = letter("X"), letter("Y")
    span = span_of_attention(X * Y, J, U)
    assert span == 6 + lg(J) + lg(U) + 3 * lg(X * Y)
    for x, y in ((4, 8), (3, 5), (64, 64)):
        assert span.xreplace({X: x, Y: y}).doit() == layer(x * y, open_length=False).span
        assert span.xreplace({X: x, Y: 2 * y}).doit() != layer(x * y, open_length=False).span


@pytest.mark.parametrize("width", [5, 16, 100])
def test_blocks_take_what_the_notes_of_the_field_say(width: int) -> None:
    """LN 2⌈log₂ d⌉ + 9, feed-forward 5 + ⌈log₂ d⌉ + ⌈log₂ d_ff⌉."""
    x = torch.zeros(2, 7, width)
    assert trace(LayerNorm(width=width), [x], [(B, T, None)]).span == 2 * lg(width) + 9
    net = StandardFeedForward(width=width, hidden=3 * width)
    assert trace(net, [x], [(B, T, None)]).span == 5 + lg(width) + lg(3 * width)


def test_dot_products() -> None:
    assert span_of_dot(letter("D")) == 1 + lg(letter("D"))
    assert [span_of_dot(size) for size in (1, 2, 3, 4, 5, 1024)] == [1, 2, 3, 3, 4, 11]
    assert [span_of_dot(size, serial=True) for size in (1, 5)] == [1, 5]
    assert list(wrong_variants(1 + lg(T)))
