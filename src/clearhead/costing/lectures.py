"""What the lectures print about cost, derived from the closed forms, beside what is measured on torch's graphs."""

import sympy
import torch
from sympy import Expr
from torch import nn

from clearhead.attention import MultiHeadAttention
from clearhead.blocks import StandardFeedForward
from clearhead.costing.forms.lecture import (
    convolution_layer,
    recurrent_layer,
    restricted_layer,
    self_attention_layer,
    span_of_attention,
    span_of_scores,
)
from clearhead.costing.forms.letters import B, letter, lg, n
from clearhead.costing.forms.text import tidy
from clearhead.costing.forms.views import asymptotic, printed
from clearhead.costing.layout import Column
from clearhead.costing.model import cost
from clearhead.costing.sheet import Cell, CostReport, Sheet
from clearhead.costing.tracing.graph import Traced, trace
from clearhead.costing.tracing.layers import (
    Convolution,
    RecurrentLayer,
    attention_layer,
    measure,
    window_layer,
)

WIDTH, HEADS, LENGTH, KERNEL, NEIGHBOURS = 48, 4, 64, 3, 9
"""The sizes at which things are measured."""


def lecture_tables() -> CostReport:
    """What the lectures print beside what is measured: the module table of L4, Table 1, and the answers of L3."""
    return CostReport([module_table(), table_1(), parallel_time()])


def _columns(*titles: str) -> list[Column]:
    return [Column(titles[0], "name"), *(Column(title) for title in titles[1:])]


def module_table() -> Sheet:
    """Self-attention and the position-wise net (L4.3, L4.4): as printed, exact, and as the graph has it."""
    sizes = [f"model.width={WIDTH}", f"model.heads={HEADS}", "model.layers=1"]
    layer = cost("ttic", *sizes, "model.attention.output=true")["encoder"]["layers"]
    attention = MultiHeadAttention(width=WIDTH, heads=HEADS, scale="none", bias=False)
    attention.path = "explicit"
    bare = MultiHeadAttention(width=WIDTH, heads=HEADS, projections=False, output=False)
    bare.path = "explicit"
    free = cost("ttic", *sizes, "model.attention.projections=false")["encoder"]["layers"]["attention"]
    modules = [
        ("Self-attention", "O(n²·d)", layer["attention"].macs, layer["attention"].matrices, attention),
        ("Position-wise FFN", "O(n·d²)", layer["feedforward"].macs, layer["feedforward"].matrices, _net()),
        ("Attention without projections", "O(n²·d)", free.macs, free.matrices, bare),
    ]
    rows: list[list[Cell]] = []
    for name, on_the_slide, macs, matrices, module in modules:
        graph = _traced(module)
        derived = printed(macs)
        difference = sympy.expand(macs.numbers - graph.macs())
        rows.append(
            [
                name,
                on_the_slide,
                f"O({tidy(asymptotic(derived.expression))})",
                str(derived),
                str(printed(matrices)),
                f"{_worth(graph.macs(), {B: 1, n: LENGTH}):,}",
                str(difference),
                f"{sum(p.numel() for p in module.parameters() if p.dim() > 1):,}",
            ]
        )
    return Sheet(
        "Modules (L4.3, L4.4, L4.5)",
        _columns(
            "module",
            "on the slide",
            "grows as",
            "MACs",
            "parameters",
            "MACs measured",
            "formula − graph",
            "parameters measured",
        ),
        rows,
        [f"measured at n = {LENGTH}, d = {WIDTH}, h = {HEADS}; the slide's O(n²·d) drops the projections' 4·n·d²"],
    )


def _net() -> nn.Module:
    return StandardFeedForward(width=WIDTH)


def _traced(module: nn.Module) -> Traced:
    return trace(module.eval(), [torch.zeros(2, 7, WIDTH)], [(B, n, None)])


def table_1() -> Sheet:
    """Table 1 (L4.6), each row with the layer that was run."""
    d, k, r = letter("d"), letter("k"), letter("r")
    sizes = {d: WIDTH, k: KERNEL, r: NEIGHBOURS, n: LENGTH}
    rows = [
        ("O(n²·d)", self_attention_layer(n, d), lambda depth: attention_layer(WIDTH)),  # noqa: ARG005
        ("O(n·d²)", recurrent_layer(n, d), lambda depth: RecurrentLayer(WIDTH)),  # noqa: ARG005
        ("O(k·n·d²)", convolution_layer(n, d, k), lambda depth: Convolution(WIDTH, KERNEL, KERNEL**depth)),
        ("O(r·n·d)", restricted_layer(n, d, r), lambda depth: window_layer(WIDTH, NEIGHBOURS)),  # noqa: ARG005
    ]
    written: list[list[Cell]] = []
    for on_the_slide, layer, make in rows:
        seen = measure(make, length=LENGTH, width=WIDTH)
        half = measure(make, length=LENGTH // 2, width=WIDTH)
        path = seen.layers if layer.sequential == 1 else seen.chain
        written.append(
            [
                layer.name,
                on_the_slide,
                tidy(layer.macs),
                f"{_worth(layer.macs, sizes):,}",
                f"{seen.macs:,}",
                tidy(layer.sequential),
                f"{half.chain}, {seen.chain}",
                tidy(layer.path),
                f"{_worth(layer.path, sizes)}",
                f"{path}",
            ]
        )
    return Sheet(
        "Table 1 (L4.6)",
        _columns(
            "layer",
            "on the slide",
            "MACs",
            "number",
            "measured",
            "sequential",
            "chain measured",
            "path",
            "number",
            "measured",
        ),
        written,
        [
            f"at n = {LENGTH}, d = {WIDTH}, k = {KERNEL}, r = {NEIGHBOURS}; MACs with all projections",
            f"chain: sequential matrix products at n = {LENGTH // 2} and {LENGTH}",
            "path: layers until the last token depends on the first; for the recurrent layer, steps of one layer",
        ],
    )


def _worth(expression: Expr, sizes: dict[sympy.Symbol, int]) -> int:
    return int(expression.subs({symbol: sympy.Integer(size) for symbol, size in sizes.items()}))


def parallel_time() -> Sheet:
    """The answers of L3: 1(a), 1(b) and 2(b), with trees and with serial dot products."""
    T, J, K, U, X, Y = (letter(name) for name in "TJKUXY")
    length, width, heads = 64, 48, 4
    layer = MultiHeadAttention(width=width, heads=heads, scale="none", bias=False, output=False).eval()
    layer.path = "explicit"
    whole = trace(layer, [torch.zeros(1, length, width)], [(None, None, None)])
    scores = trace(_Scores(), [torch.zeros(length, width // heads)], [(None, None)])
    sizes = {T: length, J: width, K: heads, U: width // heads, X: 8, Y: 8}
    answers = [
        ("1(a), trees (L3.3)", "O(ln T + ln U)", span_of_scores(T, U), scores.span),
        ("1(a), serial dots", "O(U + ln T)", span_of_scores(T, U, serial=True), scores.serial_span),
        ("1(b), trees (L3.4)", "O(ln T + ln J)", span_of_attention(T, J, J / K), whole.span),
        ("1(b), serial dots", "O(J + ln T)", span_of_attention(T, J, J / K, serial=True), whole.serial_span),
        ("2(b), trees (L3.6)", "O(ln XY + ln J)", span_of_attention(X * Y, J, J / K), whole.span),
    ]
    rows: list[list[Cell]] = [
        [name, said, f"O({tidy(asymptotic(span))})", tidy(span), f"{_span(span, sizes)}", f"{measured}"]
        for name, said, span, measured in answers
    ]
    return Sheet(
        "Parallel time (L3)",
        _columns("problem", "answer", "grows as", "exact", "number", "longest path measured"),
        rows,
        [
            f"at T = {length} = X·Y = 8·8, J = {width}, K = {heads}, U = I = J/K; lg is ⌈log₂⌉",
            "a stable softmax has a second tree, the maximum; with serial dots Out takes T steps too: O(J + T)",
        ],
    )


class _Scores(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Queries equal to keys: only the shapes matter."""
        return (x @ x.transpose(-1, -2)).softmax(-1)


def _span(span: Expr, sizes: dict[sympy.Symbol, int]) -> Expr:
    worth = span.xreplace({symbol: sympy.Integer(size) for symbol, size in sizes.items()})
    return worth.replace(lambda part: isinstance(part, lg), lambda part: lg(part.args[0].doit()))
