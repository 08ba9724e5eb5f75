"""L4.6: the four layers of Table 1, as modules of the product: work, what waits, and the longest path."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import sympy
import torch
from sympy import Expr
from torch import nn

from clearhead.attention import LocalAttention
from clearhead.blocks import Convolution, Recurrence
from clearhead.costing import (
    convolution_layer,
    letter,
    recurrent_layer,
    restricted_layer,
    self_attention_layer,
    span_of_attention,
)
from clearhead.costing.forms.lecture import LayerCost
from clearhead.costing.tracing import counted_macs, watch
from clearhead.costing.tracing.layers import attention_layer, measure
from clearhead.lectures.demonstrations.broken import broken_block
from clearhead.lectures.demonstrations.compare import written
from clearhead.lectures.demonstrations.l2_motivation import steps_between
from clearhead.lectures.demonstrations.sequential import EXPLICIT, key_by_key
from clearhead.lectures.evidence import Evidence, EvidenceTable, Measure

n, d, k, r = letter("n"), letter("d"), letter("k"), letter("r")
LENGTH, WIDTH, KERNEL, WINDOW = 64, 8, 3, 9
SIZES = {n: LENGTH, d: WIDTH, k: KERNEL, r: WINDOW}


@dataclass(frozen=True)
class TableOneRow:
    """A row of Table 1."""

    work: Expr
    """The order that the table prints."""
    cost: Callable[[], LayerCost]
    """Our formulas for it."""
    make: Callable[..., nn.Module]
    """The module; its arguments are the width and the depth at which it stands."""


def _local(width: int, depth: int = 0, *, sides: Any = "both") -> LocalAttention:
    del depth
    module = LocalAttention(width=width, heads=1, bias=False, window=WINDOW, sides=sides)
    module.path = "explicit"
    return module


def _convolution(width: int, depth: int = 0) -> Convolution:
    """Layer by layer k times as far apart, each token the last of its kernel.

    No farther than the line is long, as a broken layer may need any number of them and would take all memory.
    """
    apart = min(KERNEL**depth, LENGTH)
    return Convolution(width=width, kernel=KERNEL, dilation=apart, causal=True, activation="gelu", bias=False)


def _with_path(cost: LayerCost, path: Expr) -> LayerCost:
    return LayerCost(cost.name, cost.macs, cost.mixing, cost.sequential, path)


ROWS = {
    "self-attention": TableOneRow(
        n**2 * d, lambda: self_attention_layer(n, d), lambda width, depth=0: attention_layer(width)
    ),
    "recurrent": TableOneRow(
        n * d**2,
        lambda: recurrent_layer(n, d),
        lambda width, depth=0: Recurrence(cell="elman", inputs=width, state=width),
    ),
    "convolution": TableOneRow(k * n * d**2, lambda: convolution_layer(n, d, k), _convolution),
    "restricted, both sides": TableOneRow(r * n * d, lambda: restricted_layer(n, d, r), _local),
    "restricted, one side": TableOneRow(
        r * n * d, lambda: restricted_layer(n, d, r, sides="one"), partial(_local, sides="one")
    ),
}


def table_one() -> Evidence:
    """L4.6: work counted, the longest path traced, and how many layers or steps join the ends."""
    return Evidence(
        measures=(
            *(_order(name, *sizes) for name in ROWS for sizes in ((2, 1), (1, 2))),
            *(_work(name) for name in ROWS),
            *(_waits(name) for name in ROWS),
            *(_path(name) for name in ROWS),
        ),
        wrong=(
            broken_block("attention on one key after another", EXPLICIT, key_by_key, partial(_waits, "self-attention")),
            broken_block(
                "windows that let everything through",
                "clearhead.attention.local.LocalAttention.reach",
                lambda _right: lambda _self, _causal: (LENGTH, LENGTH),
                partial(_path, "restricted, both sides"),
            ),
            broken_block(
                "a path of windows counted as if both sides reached as far as one",
                "clearhead.costing.forms.local.window_path",
                lambda right: lambda length, window, *, both: right(length, window, both=False),
                partial(_path, "restricted, both sides"),
            ),
            broken_block(
                "convolutions that are counted as reaching n/k",
                "clearhead.costing.forms.lecture.convolution_layer",
                lambda right: lambda *sizes: _with_path(right(*sizes), sizes[0] / sizes[2]),
                partial(_path, "convolution"),
            ),
            broken_block(
                "a recurrent layer that is counted as reaching everything at once",
                "clearhead.costing.forms.lecture.recurrent_layer",
                lambda right: lambda *sizes: _with_path(right(*sizes), sizes[0] / sizes[0]),
                partial(_path, "recurrent"),
            ),
        ),
        tables=(
            EvidenceTable(
                f"Table 1, measured: n = {LENGTH}, d = {WIDTH}, k = {KERNEL}, r = {WINDOW}",
                (
                    "layer",
                    "work, the table",
                    "multiplications",
                    "longest path at n/2",
                    "at n",
                    "layers or steps between the ends",
                ),
                tuple(
                    (
                        name,
                        written(row.work),
                        _macs(name, LENGTH, WIDTH),
                        _span(name, LENGTH // 2),
                        _span(name, LENGTH),
                        _joined(name),
                    )
                    for name, row in ROWS.items()
                ),
            ),
        ),
        notes=(
            "Multiplications include the projections. The longest path is counted in arithmetic steps with sums as "
            "trees, so that attention grows by three steps when n doubles: the table's O(1) leaves out the logarithm.",
            "A window of r tokens, its own included, reaches r − 1 tokens on one side and (r − 1)/2 on both.",
        ),
    )


def _macs(name: str, length: int, width: int, *, depth: int = 0) -> int:
    module, x = ROWS[name].make(width, depth), torch.randn(1, length, width)
    with torch.no_grad():
        return counted_macs(lambda: module(x))


def _order(name: str, longer: int, wider: int) -> Measure:
    """How the work without projections grows when n or d doubles, beside the table's order."""
    row = ROWS[name]
    has_projections = name == "self-attention" or name.startswith("restricted")
    projections = 4 * n * d**2 * int(has_projections)
    base = _macs(name, LENGTH, WIDTH) - int(sympy.sympify(projections).subs(SIZES))
    sizes = SIZES | {n: longer * LENGTH, d: wider * WIDTH}
    grown = _macs(name, longer * LENGTH, wider * WIDTH) - int(sympy.sympify(projections).subs(sizes))
    what = "n" if longer > 1 else "d"
    return Measure(
        f"{name}, {written(row.work)}: work when {what} doubles, without projections",
        float(row.work.subs(sizes) / row.work.subs(SIZES)),
        grown / base,
    )


def _work(name: str) -> Measure:
    form = ROWS[name].cost().macs
    return Measure(f"{name}: multiplications, formula and counted", int(form.subs(SIZES)), _macs(name, LENGTH, WIDTH))


def _span(name: str, length: int) -> int:
    """The longest path through one layer, as it runs."""
    module, x = ROWS[name].make(WIDTH, 0), torch.randn(1, length, WIDTH)
    with torch.no_grad():
        return watch(lambda: _first(module(x)), module, [x]).span


def _first(out: Any) -> Any:
    return out[0] if isinstance(out, tuple) else out


def _waits(name: str) -> Measure:
    """What waits longer when n doubles: a step for each further token, or for attention the levels of its trees."""
    sequential, half = ROWS[name].cost().sequential, LENGTH // 2
    more = int(sequential.subs(n, LENGTH) - sequential.subs(n, half))
    expected = more * (_span(name, 3) - _span(name, 2)) if more else 0
    if name == "self-attention":
        expected = int(span_of_attention(LENGTH, WIDTH, WIDTH) - span_of_attention(half, WIDTH, WIDTH))
    what = f"{name}, O({written(sequential)}) sequential: longest path at n = {LENGTH} against {half}, steps more"
    return Measure(what, expected, _span(name, LENGTH) - _span(name, half))


def _joined(name: str) -> int:
    """Layers until the last token depends on the first; for the recurrent layer, steps of one layer."""
    row = ROWS[name]
    if name == "recurrent":
        return steps_between(row.make(WIDTH), LENGTH)
    return measure(partial(row.make, WIDTH), length=LENGTH, width=WIDTH).layers


def _path(name: str) -> Measure:
    path = ROWS[name].cost().path
    what = f"{name}: layers or steps between the ends of {LENGTH} tokens, {written(path)}"
    return Measure(what, int(path.subs(SIZES).doit()), _joined(name))
