"""L3.3, L3.4 and L3.6: parallel time, as the longest path through what the product runs.

The graph that torch traces, with an open T, shows the formula; the same modules, watched as they run on given sizes,
show each number.
"""

import math
from functools import partial
from typing import Any

import sympy
import torch
from sympy import Expr
from torch import Tensor, nn

from clearhead.attention import GridAttention, MultiHeadAttention, dot, weigh
from clearhead.costing import B, letter, lg, span_of_attention, span_of_scores
from clearhead.costing.tracing import Traced, Watched, trace, watch
from clearhead.drawing.figure import Lines, Series
from clearhead.lectures.demonstrations.broken import broken_block
from clearhead.lectures.demonstrations.compare import formula_gap, written
from clearhead.lectures.demonstrations.sequential import EXPLICIT, key_by_key
from clearhead.lectures.evidence import Evidence, EvidenceTable, Measure, Value

T, U, J = letter("T"), letter("U"), letter("J")
WIDTH, HEADS = 32, 4
SIZE = WIDTH // HEADS
LENGTHS = (16, 64, 256, 1024, 4096)
AT = 64


class _Weigh(nn.Module):
    """The weights of problem 1(a): unscaled scores, then a softmax."""

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return weigh(query, keys, scale="none")


class _Dot(nn.Module):
    """The score alone."""

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return dot(query, keys)


def softmax_in_parallel() -> Evidence:
    """L3.3: 1(a) on the traced graph, with tree sums and with serial dot products."""
    graph = trace(_Weigh(), [torch.zeros(7, SIZE), torch.zeros(7, SIZE)], [(T, None), (T, None)])
    tree, serial = span_of_scores(T, U), span_of_scores(T, U, serial=True)
    name = f"longest path, U = {SIZE}"

    def steps(way: str) -> Measure:
        given = torch.randn(AT, SIZE), torch.randn(AT, SIZE)
        module = _Weigh()
        seen = watch(lambda: module(*given), module, given)
        form, found = (tree, seen.span) if way == "tree sums" else (serial, seen.serial_span)
        return Measure(f"{name}, T = {AT}, {way}, as it runs", _steps(form.subs(U, SIZE), AT), found)

    def sums() -> Measure:
        """Dot products with vectors of ones, one step of which is the multiplication."""
        counts, module = (2, 8, 9, 64, 1000), _Dot()
        found = []
        for count in counts:
            given = torch.randn(1, count), torch.ones(1, count)
            found.append(watch(partial(module, *given), module, given).span - 1)
        expected = [math.ceil(math.log2(count)) for count in counts]
        return Measure(f"steps to add up {', '.join(map(str, counts))} terms: ⌈log₂N⌉", str(expected), str(found))

    return Evidence(
        measures=(
            sums(),
            formula_gap("in parallel: 1 + ⌈log₂U⌉ + 2⌈log₂T⌉ + 3", 4 + lg(U) + 2 * lg(T), tree),
            formula_gap("in practice: U + 2⌈log₂T⌉ + 3", 3 + U + 2 * lg(T), serial),
            Measure(f"{name}: formula − traced graph", "0", _gap(tree.subs(U, SIZE), graph.span)),
            Measure(
                f"{name}, serial dot products: formula − graph", "0", _gap(serial.subs(U, SIZE), graph.serial_span)
            ),
            steps("tree sums"),
            steps("serial dot products"),
        ),
        wrong=(
            broken_block(
                "a sum that takes one term after another",
                "clearhead.attention.score.dot",
                lambda _right: _feature_by_feature,
                sums,
            ),
            broken_block(
                "a softmax that adds up Z one key after another",
                "clearhead.attention.choice.choose",
                lambda _right: lambda scores, _mask, _choice: scores.exp() / _one_by_one(scores.exp()),
                partial(steps, "tree sums"),
            ),
            broken_block(
                "a score that adds up one feature after another",
                "clearhead.attention.attend.weigh",
                lambda right: lambda query, keys, **more: right(query, keys, **more, score=_feature_by_feature),
                partial(steps, "tree sums"),
            ),
            broken_block(
                "a softmax without its maximum, which overflows: one tree over T, not two",
                "clearhead.attention.choice.choose",
                lambda _right: lambda scores, _mask, _choice: scores.exp() / scores.exp().sum(-1, keepdim=True),
                partial(steps, "serial dot products"),
            ),
        ),
        tables=(_table(f"Steps over T, U = {SIZE}", graph, "1(a)"),),
        notes=("The margin of line 12 has a small o; what is meant, and shown here, is O(ln U + ln T).",),
    )


def _one_by_one(terms: Tensor) -> Tensor:
    total = terms[..., :1]
    for key in range(1, terms.shape[-1]):
        total = total + terms[..., key : key + 1]
    return total


def _feature_by_feature(query: Tensor, keys: Tensor) -> Tensor:
    total = query[..., :, None, 0] * keys[..., None, :, 0]
    for feature in range(1, query.shape[-1]):
        total = total + query[..., :, None, feature] * keys[..., None, :, feature]
    return total


def _layer(heads: int = HEADS) -> MultiHeadAttention:
    """The layer of L3.1: unscaled, no biases, no W_O."""
    module = MultiHeadAttention(width=WIDTH, heads=heads, scale="none", bias=False, output=False).eval()
    module.path = "explicit"
    return module


def _run(module: nn.Module, length: int) -> Watched:
    """The layer as it runs on one sequence."""
    x = torch.randn(1, length, WIDTH)
    return watch(lambda: module(x), module, [x])


def layer_in_parallel() -> Evidence:
    """L3.4: 1(b) on the traced graph, over T and over K; in practice the sum over T is a dot product too."""
    graph = trace(_layer(), [torch.zeros(2, 7, WIDTH)], [(B, T, None)])
    tree, serial = (span_of_attention(T, J, U, serial=serial) for serial in (False, True))
    here = {J: WIDTH, U: SIZE}
    name = f"longest path, J = {WIDTH}, U = {SIZE}"
    heads = (1, 2, 4, 8)

    def steps(way: str) -> Measure:
        seen = _run(_layer(), AT)
        form, found = (tree, seen.span) if way == "tree sums" else (serial, seen.serial_span)
        return Measure(f"{name}, T = {AT}, {way}, as it runs", _steps(form.subs(here), AT), found)

    def over_heads() -> dict[int, Watched]:
        return {count: _run(_layer(count), AT) for count in heads}

    def fewer() -> Measure:
        """U = J/K: with K heads a score sums fewer features."""
        seen = over_heads()
        expected = [_steps(span_of_attention(T, WIDTH, WIDTH // count), AT) for count in heads]
        found = [seen[count].span for count in heads]
        return Measure(f"steps with K = {', '.join(map(str, heads))} heads of J/K features", str(expected), str(found))

    ratio = _steps(graph.serial_span, LENGTHS[-1]) / _steps(graph.serial_span, LENGTHS[-1] // 2)
    x = tuple(map(float, LENGTHS))
    return Evidence(
        measures=(
            formula_gap("in parallel: 6 + ⌈log₂J⌉ + ⌈log₂U⌉ + 3⌈log₂T⌉", 6 + lg(J) + lg(U) + 3 * lg(T), tree),
            formula_gap("in practice: J + U + T + 2⌈log₂T⌉ + 3", J + U + T + 2 * lg(T) + 3, serial),
            Measure(f"{name}: formula − traced graph", "0", _gap(tree.subs(here), graph.span)),
            Measure(f"{name}, serial dot products: formula − graph", "0", _gap(serial.subs(here), graph.serial_span)),
            steps("tree sums"),
            steps("serial dot products"),
            Measure("in practice, steps when T doubles to 4096: O(J + T), not O(J + ln T)", 2.0, ratio, tolerance=0.05),
            fewer(),
        ),
        wrong=(
            broken_block("attention on one key after another", EXPLICIT, key_by_key, partial(steps, "tree sums")),
            broken_block(
                "keys that wait for the queries",
                "clearhead.attention.heads.Heads.candidates",
                lambda right: lambda self, memory, values=None: right(self, self.query(memory), values),
                partial(steps, "serial dot products"),
            ),
            broken_block(
                "one head after another: each waits for the last",
                "clearhead.attention.paths.attend_heads",
                _head_by_head,
                fewer,
            ),
        ),
        tables=(
            _table(f"Steps over T, J = {WIDTH}, U = {SIZE}", graph, "1(b)"),
            EvidenceTable(
                f"1(b): steps over K, T = {AT}, J = {WIDTH}, U = I = J/K",
                ("K", "tree sums", "serial dot products"),
                tuple((count, seen.span, seen.serial_span) for count, seen in over_heads().items()),
            ),
        ),
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
        notes=(
            "The question asks for T, J and K; the answer has no K, as all heads run at once. With U = J/K more heads "
            "even take fewer steps: ⌈log₂J⌉ + ⌈log₂(J/K)⌉.",
        ),
    )


def _head_by_head(right: Any) -> Any:
    def attend(method: Any, query: Tensor, keys: Tensor, values: Tensor, context: Any) -> Tensor:
        done: list[Tensor] = []
        for head in range(query.shape[1]):
            one = [part[:, head : head + 1] for part in (query, keys, values)]
            if done:
                one[0] = one[0] + 0 * done[-1]
            done.append(right(method, *one, context))
        return torch.cat(done, dim=1)

    return attend


def two_dimensions_in_parallel() -> Evidence:
    """L3.6: 2(b): attention on a grid takes the time of T = XY: a sum of two logarithms."""
    X, Y = letter("X"), letter("Y")
    span = span_of_attention(X * Y, J, U)
    pictures = ((4, 8), (3, 5), (8, 8), (16, 16))

    def formula(x: int, y: int) -> int:
        return int(span.subs({J: WIDTH, U: SIZE, X: x, Y: y}).doit())

    def traced(x: int, y: int) -> int:
        return _run(GridAttention(_layer(), grid=(x, y)), x * y).span

    def steps(x: int, y: int) -> Measure:
        return Measure(f"longest path through GridAttention, {x} × {y}", formula(x, y), traced(x, y))

    def doubled() -> Measure:
        more = formula(16, 16) - formula(8, 8)
        return Measure("steps more with twice as many rows and columns", more, traced(16, 16) - traced(8, 8))

    tiles = "clearhead.attention.grid.attend_in_tiles"
    return Evidence(
        measures=(
            formula_gap("6 + ⌈log₂J⌉ + ⌈log₂U⌉ + 3⌈log₂XY⌉", 6 + lg(J) + lg(U) + 3 * lg(X * Y), span),
            *(steps(x, y) for x, y in pictures),
            doubled(),
        ),
        wrong=(
            broken_block(
                "a softmax over one of the two dimensions",
                tiles,
                lambda right: (
                    lambda *given, grid, tile, context: right(*given, grid=grid, tile=(1, tile[1]), context=context)
                ),
                partial(steps, *pictures[0]),
            ),
            broken_block(
                "rows first, then columns: two layers of attention",
                tiles,
                lambda right: (
                    lambda attention, cells, **more: right(attention, right(attention, cells, **more), **more)
                ),
                partial(steps, *pictures[1]),
            ),
            broken_block("one cell after another", EXPLICIT, key_by_key, doubled),
        ),
        tables=(
            EvidenceTable(
                f"Steps of the layer on images, J = {WIDTH}, U = {SIZE}",
                ("picture", "formula", "as it runs"),
                tuple((f"{x} × {y}", formula(x, y), traced(x, y)) for x, y in pictures),
            ),
        ),
    )


def _gap(claimed: Expr, traced: Expr) -> str:
    return written(sympy.expand(claimed - traced))


def _steps(span: Expr, length: int) -> int:
    return int(span.xreplace({T: sympy.Integer(length)}).doit())


def _table(title: str, graph: Traced, problem: str) -> EvidenceTable:
    rows: tuple[tuple[Value, ...], ...] = tuple(
        (k, _steps(graph.span, k), _steps(graph.serial_span, k)) for k in LENGTHS
    )
    return EvidenceTable(f"{problem}: {title}", ("T", "tree sums", "serial dot products"), rows)
