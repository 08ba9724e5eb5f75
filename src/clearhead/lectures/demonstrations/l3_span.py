"""L3.3, L3.4 and L3.6: parallel time, as the longest path through the graph that torch traces."""

import sympy
import torch
from sympy import Expr
from torch import Tensor, nn

from clearhead.attention import MultiHeadAttention, weigh
from clearhead.costing import B, letter, lg, span_of_attention, span_of_scores
from clearhead.costing.tracing import Traced, trace
from clearhead.drawing.figure import Lines, Series
from clearhead.lectures.demonstrations.compare import formula_gap, written
from clearhead.lectures.evidence import Evidence, EvidenceTable, Measure, Value, Wrong

T, U, J = letter("T"), letter("U"), letter("J")
WIDTH, HEADS = 24, 4
SIZE = WIDTH // HEADS
LENGTHS = (16, 64, 256, 1024, 4096)


class _Weigh(nn.Module):
    """The weights of problem 1(a): unscaled scores, then a softmax."""

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return weigh(query, keys, scale="none")


def softmax_in_parallel() -> Evidence:
    """L3.3: 1(a) on the traced graph, with tree sums and with serial dot products."""
    graph = trace(_Weigh(), [torch.zeros(7, SIZE), torch.zeros(7, SIZE)], [(T, None), (T, None)])
    tree, serial = span_of_scores(T, U), span_of_scores(T, U, serial=True)
    name = "longest path through the traced graph, U = 6"
    return Evidence(
        measures=(
            formula_gap("in parallel: 1 + ⌈log₂U⌉ + 2⌈log₂T⌉ + 3", 4 + lg(U) + 2 * lg(T), tree),
            formula_gap("in practice: U + 2⌈log₂T⌉ + 3", 3 + U + 2 * lg(T), serial),
            Measure(f"{name}: formula − graph", "0", _gap(tree.subs(U, SIZE), graph.span)),
            Measure(
                f"{name}, serial dot products: formula − graph", "0", _gap(serial.subs(U, SIZE), graph.serial_span)
            ),
        ),
        wrong=(
            Wrong(
                "one tree over T: Z alone, without the maximum of a stable softmax",
                Measure(name, "0", _gap(tree.subs(U, SIZE) - lg(T), graph.span)),
            ),
            Wrong("scores in no time: ln T alone", Measure(name, "0", _gap(tree.subs(U, SIZE) - lg(SIZE), graph.span))),
        ),
        tables=(_table("Steps over T, U = 6", graph, "1(a)"),),
    )


def _layer(length: int, *, open_length: bool = True) -> Traced:
    """The layer of L3.1: unscaled, no biases, no W_O."""
    module = MultiHeadAttention(width=WIDTH, heads=HEADS, scale="none", bias=False, output=False).eval()
    module.path = "explicit"
    return trace(module, [torch.zeros(2, length, WIDTH)], [(B, T if open_length else None, None)])


def layer_in_parallel() -> Evidence:
    """L3.4: 1(b) on the traced graph; in practice the sum over T is a dot product too."""
    graph = _layer(7)
    tree, serial = (span_of_attention(T, J, U, serial=serial) for serial in (False, True))
    here = {J: WIDTH, U: SIZE}
    name = f"longest path through the traced graph, J = {WIDTH}, U = {SIZE}"
    ratio = _steps(graph.serial_span, 4096) / _steps(graph.serial_span, 2048)
    x = tuple(map(float, LENGTHS))
    return Evidence(
        measures=(
            formula_gap("in parallel: 6 + ⌈log₂J⌉ + ⌈log₂U⌉ + 3⌈log₂T⌉", 6 + lg(J) + lg(U) + 3 * lg(T), tree),
            formula_gap("in practice: J + U + T + 2⌈log₂T⌉ + 3", J + U + T + 2 * lg(T) + 3, serial),
            Measure(f"{name}: formula − graph", "0", _gap(tree.subs(here), graph.span)),
            Measure(f"{name}, serial dot products: formula − graph", "0", _gap(serial.subs(here), graph.serial_span)),
            Measure("in practice, steps when T doubles from 2048", 2.0, ratio, tolerance=0.05),
        ),
        wrong=(
            Wrong(
                "in practice O(J + ln T), as the solution says: Out sums over T one after the other as well",
                Measure(f"{name}, serial", "0", _gap((J + U + 3 * lg(T) + 4).subs(here), graph.serial_span)),
            ),
            Wrong("the projections left out", Measure(name, "0", _gap(tree.subs(here) - lg(WIDTH) - 1, graph.span))),
        ),
        tables=(_table(f"Steps over T, J = {WIDTH}, U = {SIZE}", graph, "1(b)"),),
        figures=(
            Lines(
                title="Steps of the layer over T: in parallel, and with dot products one term after the other",
                alt="Tree sums take steps in proportion to the logarithm of T, serial dot products to T itself.",
                x_label="tokens T",
                y_label="steps",
                log_x=True,
                log_y=True,
                series=(
                    Series("tree sums", x, tuple(float(_steps(graph.span, k)) for k in LENGTHS)),
                    Series("serial dot products", x, tuple(float(_steps(graph.serial_span, k)) for k in LENGTHS)),
                ),
            ),
        ),
    )


def two_dimensions_in_parallel() -> Evidence:
    """L3.6: 2(b): the same with T = XY: a sum of two logarithms."""
    X, Y = letter("X"), letter("Y")
    span = span_of_attention(X * Y, J, U)
    here = {J: WIDTH, U: SIZE}
    pictures = ((4, 8), (3, 5), (16, 16), (64, 64))
    rows: list[tuple[Value, ...]] = []
    for x, y in pictures:
        predicted = int(span.subs({**here, X: x, Y: y}).doit())
        rows.append((f"{x} × {y}", predicted, int(_layer(x * y, open_length=False).span)))
    off = sum(abs(int(predicted) - int(seen)) for _, predicted, seen in rows)
    grown = [
        int(span.subs({**here, X: 2 * k, Y: 2 * k}).doit() - span.subs({**here, X: k, Y: k}).doit()) for k in (8, 64)
    ]
    what = "formula − graph, over four images"
    return Evidence(
        measures=(
            formula_gap("6 + ⌈log₂J⌉ + ⌈log₂U⌉ + 3⌈log₂XY⌉", 6 + lg(J) + lg(U) + 3 * lg(X * Y), span),
            Measure(what, 0, off),
            Measure("additional steps when an image of 8 × 8 has twice as many rows and columns", 6, grown[0]),
            Measure("the same from 64 × 64", 6, grown[1]),
        ),
        wrong=(
            Wrong(
                "a softmax over one of the two dimensions",
                Measure(
                    what,
                    0,
                    sum(
                        abs(int(span_of_attention(x, WIDTH, SIZE)) - int(row[2]))
                        for (x, _), row in zip(pictures, rows, strict=True)
                    ),
                ),
            ),
            Wrong(
                "the images one row after the other: X + Y",
                Measure("additional steps when an image of 8 × 8 is doubled", 16, grown[0]),
            ),
        ),
        tables=(EvidenceTable("Steps of the layer on images", ("picture", "formula", "traced graph"), tuple(rows)),),
    )


def _gap(claimed: Expr, traced: Expr) -> str:
    return written(sympy.expand(claimed - traced))


def _steps(span: Expr, length: int) -> int:
    return int(span.xreplace({T: sympy.Integer(length)}).doit())


def _table(title: str, graph: Traced, problem: str) -> EvidenceTable:
    rows = tuple((k, _steps(graph.span, k), _steps(graph.serial_span, k)) for k in LENGTHS)
    return EvidenceTable(f"{problem}: {title}", ("T", "tree sums", "serial dot products"), rows)
