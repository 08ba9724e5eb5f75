"""L4.1 to L4.5: multiplications and parameters of self-attention and the feed-forward net."""

from functools import partial
from typing import Any

import sympy
import torch
from sympy import Expr
from torch import Tensor, nn

from clearhead.attention import MultiHeadAttention
from clearhead.blocks import StandardFeedForward, StateAttention
from clearhead.costing import Cost, cost, letter, matmul_work, multihead_work
from clearhead.costing.tracing import counted_macs, trace
from clearhead.lectures.demonstrations.broken import broken_block
from clearhead.lectures.demonstrations.compare import alike, formula_gap, written
from clearhead.lectures.demonstrations.crossings import (
    FORMULAS,
    RECURRENCE,
    counted,
    crossing_measures,
    figure_over_length,
    inputs_twice,
    scores_twice,
    table_over_length,
)
from clearhead.lectures.demonstrations.sequential import EXPLICIT
from clearhead.lectures.evidence import Evidence, EvidenceTable, Measure
from clearhead.models import build, count_parameters
from clearhead.recipe import read_recipe

B, n, d, h, d_ff = (letter(name) for name in ("B", "n", "d", "h", "d_ff"))
LENGTH, WIDTH, HEADS = 40, 64, 4


def two_by_three() -> Evidence:
    """L4.1: the very example: six multiplications, three parameters."""
    rows, column = torch.tensor([[1.0, 2, 3], [4, 5, 6]]), torch.tensor([[1.0, 2, 3]])
    learnable = nn.Linear(3, 1, bias=False)
    with torch.no_grad():
        learnable.weight.copy_(column)
    product = [sum(a * b for a, b in zip(row, column[0].tolist(), strict=True)) for row in rows.tolist()]

    def multiplications() -> Measure:
        work = int(matmul_work(rows.shape[0], rows.shape[1], 1))
        return Measure("multiplications: m·n·p, and counted as it runs", work, counted_macs(lambda: learnable(rows)))

    def printed() -> Measure:
        return Measure("multiplications, as printed: 2 × 3 × 1 = 6", 6, counted_macs(lambda: learnable(rows)))

    def parameters() -> Measure:
        for_each_row = nn.ModuleList([learnable] * len(rows))
        what = "parameters of the (3 × 1) matrix, as printed: 3, though it is used for both rows"
        return Measure(what, 3, count_parameters(for_each_row))

    return Evidence(
        measures=(
            alike(
                "the product: row by row, and as it runs", learnable(rows)[:, 0], torch.tensor(product), tolerance=0.0
            ),
            printed(),
            multiplications(),
            parameters(),
        ),
        wrong=(
            broken_block(
                "a counter that counts multiplications and additions (FLOPs)",
                "clearhead.costing.tracing.operators.numel",
                lambda right: lambda shape: 2 * right(shape),
                printed,
            ),
            broken_block(
                "a formula that forgets the inner size",
                "clearhead.costing.forms.lecture.matmul_work",
                lambda _right: lambda rows, _inner, columns: rows * columns,
                multiplications,
            ),
            broken_block(
                "a counter that counts the matrix again for each row",
                "clearhead.models.build.count_parameters",
                lambda right: lambda shared: sum(map(right, shared)),
                parameters,
            ),
        ),
    )


def head_by_head() -> Evidence:
    """L4.2: each row of the lecture's derivation, from the traced module."""
    work = multihead_work(n, n, h=h, d_q=d, d_v=d, head_q=d / h, head_v=d / h, d_o=d)
    per_head = {
        "query projection": (n * d**2 / h, "query"),
        "key projection": (n * d**2 / h, "key"),
        "value projection": (n * d**2 / h, "value"),
        "scores": (n**2 * d / h, "QKᵀ"),
        "values": (n**2 * d / h, "αV"),
        "output projection, all heads": (n * d**2, "output"),
    }

    def traced() -> dict[str, Expr]:
        module = MultiHeadAttention(width=WIDTH, heads=HEADS, bias=False).eval()
        module.path = "explicit"
        graph = trace(module, [torch.zeros(2, 7, WIDTH)], [(B, n, None)])
        scores, mixed = (node.cost.macs for node in graph.nodes if node.name in ("matmul", "bmm"))
        shares = {part: graph.macs(part) / HEADS for part in ("query", "key", "value")}
        return shares | {"QKᵀ": scores / HEADS, "αV": mixed / HEADS, "output": graph.macs("output")}

    def rows() -> list[Measure]:
        found = traced()
        return [
            Measure(
                f"{name}: {written(claimed)}, claimed − traced, d = {WIDTH}, h = {HEADS}",
                "0",
                written(sympy.expand(claimed.subs({d: WIDTH, h: HEADS}) - found[part] / B)),
            )
            for name, (claimed, part) in per_head.items()
        ]

    def row(place: int) -> Measure:
        return rows()[place]

    return Evidence(
        measures=(
            *rows(),
            formula_gap("projections of a head: 3nd²/h", 3 * n * d**2 / h, work.projections / h),
            formula_gap("scores and values of a head: 2n²d/h", 2 * n**2 * d / h, work.attention / h),
            formula_gap("output: nd²", n * d**2, work.output),
        ),
        wrong=(
            broken_block(
                "heads of the full size: nd² each",
                "clearhead.attention.multihead.MultiHeadAttention.__init__",
                lambda right: (
                    lambda self, *, width, **more: right(self, width=width, query_size=width, value_size=width, **more)
                ),
                partial(row, 0),
            ),
            broken_block(
                "values that are weighed twice",
                EXPLICIT,
                _values_twice,
                partial(row, 4),
            ),
            broken_block(
                "an output projection that is left out",
                "clearhead.attention.heads.Heads.join",
                lambda _right: lambda _self, heads: heads.transpose(1, 2).flatten(2),
                partial(row, 5),
            ),
        ),
    )


def _values_twice(right: Any) -> Any:
    """Break ``EXPLICIT``: the weights are multiplied with twice as many features, half of which are dropped."""

    def explicit(method: Any, query: Tensor, keys: Tensor, values: Tensor, context: Any) -> Tensor:
        wide: Tensor = right(method, query, keys, torch.cat((values, values), dim=-1), context)
        return wide[..., : values.shape[-1]]

    return explicit


def _encoder_layer(*settings: str) -> Cost:
    """The cost of one encoder layer of a small model."""
    return cost("tiny", "model.layers=2", f"model.width={WIDTH}", f"model.heads={HEADS}", *settings)["encoder"][
        "layers"
    ]


def _attention(**settings: Any) -> MultiHeadAttention:
    module = MultiHeadAttention(width=WIDTH, heads=HEADS, bias=False, **settings)
    module.path = "explicit"
    return module


def self_attention() -> Evidence:
    """L4.3: the two rows of the notes: multi-head 4nd² + 2n²d with 4d² parameters, and self-attention alone 2n²d."""
    attention, with_biases = (_encoder_layer(f"model.attention.bias={bias}")["attention"] for bias in ("false", "true"))
    causal = cost("tiny", "model.layers=2", f"model.width={WIDTH}", "model.family=lm")["decoder"]["layers"]["attention"]
    x = torch.randn(1, LENGTH, WIDTH)
    whole, alone = 4 * n * d**2 + 2 * n**2 * d, 2 * n**2 * d

    def multihead() -> Measure:
        module = _attention()
        what = f"multi-head (line 117): 4nd² + 2n²d, counted at n = {LENGTH}, d = {WIDTH}"
        return Measure(what, _worth(whole), counted_macs(lambda: module(x)))

    def bare() -> Measure:
        module = _attention(projections=False, output=False)
        what = "self-attention alone (line 121): 2n²d, counted, without projections"
        return Measure(what, _worth(alone), counted_macs(lambda: module(x)))

    def built() -> Measure:
        return Measure("parameters built: 4d²", 4 * WIDTH**2, count_parameters(_attention()))

    hidden = attention.macs.at(n=LENGTH, B=1) - causal.causal_macs.at(n=LENGTH, B=1)
    return Evidence(
        measures=(
            formula_gap("work of the recipe's attention, one line: 4nd² + 2n²d", whole, _one_line(attention)),
            multihead(),
            bare(),
            built(),
            Measure("parameters, formula of the recipe", 4 * WIDTH**2, attention.parameters.at()),
            Measure("with biases: 4d more", 4 * WIDTH, with_biases.parameters.at() - attention.parameters.at()),
            Measure(
                "FLOPs over multiply-accumulates",
                2,
                attention.flops.at(n=LENGTH, B=1) // attention.macs.at(n=LENGTH, B=1),
            ),
            Measure("a causal mask hides n(n−1)d of it", LENGTH * (LENGTH - 1) * WIDTH, hidden),
        ),
        wrong=(
            broken_block("scores that are computed twice", EXPLICIT, scores_twice, multihead),
            broken_block(
                "projections where there should be none",
                "clearhead.attention.multihead.MultiHeadAttention.__init__",
                lambda right: lambda self, **more: right(self, **(more | {"projections": True})),
                bare,
            ),
            broken_block(
                "the output projection forgotten",
                "clearhead.attention.multihead.MultiHeadAttention.__init__",
                lambda right: lambda self, **more: right(self, **(more | {"output": False})),
                built,
            ),
        ),
        tables=(_module_table(),),
        notes=(
            "The notes keep the two apart: line 117 is the multi-head layer with its projections, line 121 the "
            "attention inside, which the module table prints. The projections are the larger part while n < 2d.",
        ),
    )


def _worth(form: Expr) -> int:
    return int(form.subs({n: LENGTH, d: WIDTH, d_ff: 4 * WIDTH}))


def _one_line(block: Cost) -> Expr:
    """The work on a batch of one, all sizes as letters of this file."""
    return sympy.expand(block.macs.expression).subs(B, 1)


def _module_table() -> EvidenceTable:
    layer = _encoder_layer(
        "model.attention.bias=false", "model.feedforward.bias=false", f"model.feedforward.width={4 * WIDTH}"
    )
    causal = cost(
        "tiny", "model.family=lm", "model.layers=2", f"model.width={WIDTH}", f"model.feedforward.width={4 * WIDTH}"
    )
    rows = []
    for name, part, printed in (("self-attention", "attention", "O(n²d)"), ("feed-forward", "feedforward", "O(nd²)")):
        block, masked = layer[part], causal["decoder"]["layers"][part]
        rows.append(
            (
                name,
                printed,
                block.macs.at(n=LENGTH, B=1),
                block.flops.at(n=LENGTH, B=1),
                masked.causal_macs.at(n=LENGTH, B=1),
                block.parameters.at(),
            )
        )
    return EvidenceTable(
        f"The module table, n = {LENGTH}, d = {WIDTH}, d_ff = 4d, in three conventions",
        ("module", "as printed", "multiply-accumulates", "FLOPs", "with a causal mask", "parameters"),
        tuple(rows),
    )


def feed_forward() -> Evidence:
    """L4.4: 8nd² and 8d², if d_ff = 4d."""
    four = _encoder_layer(f"model.feedforward.width={4 * WIDTH}", "model.feedforward.bias=false")["feedforward"]
    x = torch.randn(1, LENGTH, WIDTH)

    def net(**settings: Any) -> StandardFeedForward:
        return StandardFeedForward(width=WIDTH, bias=False, **settings)

    def work() -> Measure:
        module = net()
        return Measure(
            f"8nd², counted at n = {LENGTH}, d = {WIDTH}", _worth(8 * n * d**2), counted_macs(lambda: module(x))
        )

    def each_map() -> tuple[Measure, ...]:
        """Watched inside the net as it runs, so that a map between other features shows."""
        module, seen = net(), dict[str, int]()
        for name in ("up", "down"):
            module.get_submodule(name).register_forward_hook(
                lambda part, given, _out, name=name: seen.update({name: counted_macs(lambda: part.forward(*given))})
            )
        with torch.no_grad():
            module(x)
        names = {"up": "input to hidden", "down": "hidden to output (line 126)"}
        return tuple(Measure(f"{names[part]}: 4nd²", _worth(4 * n * d**2), seen.get(part, 0)) for part in names)

    def built() -> Measure:
        return Measure("parameters built: 8d²", 8 * WIDTH**2, count_parameters(net()))

    def other(ratio: int) -> Measure:
        module = net(hidden=ratio * WIDTH)
        return Measure(
            f"d_ff = {ratio}d: {2 * ratio}nd², counted", 2 * ratio * _worth(n * d**2), counted_macs(lambda: module(x))
        )

    init = "clearhead.blocks.feedforward.StandardFeedForward.__init__"
    return Evidence(
        measures=(
            formula_gap("work of the recipe's net: 2nd·d_ff", 2 * n * d * d_ff, _one_line(four)),
            formula_gap("with d_ff = 4d: 8nd²", 8 * n * d**2, _one_line(four).subs(d_ff, 4 * d)),
            work(),
            *each_map(),
            Measure("parameters 8d², formula of the recipe", 8 * WIDTH**2, four.parameters.at()),
            built(),
            other(2),
        ),
        wrong=(
            broken_block(
                "a net that is twice as wide as a token, not four times",
                init,
                lambda right: lambda self, *, width, **more: right(self, width=width, **(more | {"hidden": 2 * width})),
                work,
            ),
            broken_block(
                "biases, which the count leaves out",
                init,
                lambda right: lambda self, **more: right(self, **(more | {"bias": True})),
                built,
            ),
            broken_block(
                "one of the two maps left out",
                "clearhead.blocks.feedforward.StandardFeedForward.forward",
                lambda _right: lambda self, x: self.up(x)[..., : x.shape[-1]],
                lambda: each_map()[1],
            ),
        ),
        tables=(_module_table(),),
    )


def projections_or_not() -> Evidence:
    """L4.5: attention with and without projections beside recurrent layers; the first attention and its matrices."""
    width = 32
    pairs = (("attention alone", "Elman"), ("attention", "Elman"), ("attention", "GRU"), ("attention", "LSTM"))
    usual_length, usual_width = 100, 512  # line 166: n ≈ 100; d is that of the first Transformer

    def first() -> Measure:
        """Bahdanau's score u·tanh(Ws + Uh): two matrices and a vector."""
        module = StateAttention(state=width, memory_width=width, score="concat")
        return Measure(
            f"parameters of Bahdanau's attention: 2d² + d, d = {width}", 2 * width**2 + width, count_parameters(module)
        )

    def values() -> Measure:
        preset = build(
            read_recipe("rnn-bahdanau", "model.width=32", "model.vocabulary.source=9", "model.vocabulary.target=9")
        )
        names = {name.partition(".")[0] for name, _ in _bahdanau(preset).named_parameters()}
        return Measure(
            "matrices of the preset rnn-bahdanau's attention: none for values",
            "direction, key, query",
            ", ".join(sorted(names)),
        )

    def cross(pair: tuple[str, str]) -> Measure:
        return crossing_measures(*pair, width)[0]

    def usual(name: str) -> Measure:
        expected = FORMULAS[name] / FORMULAS["Elman"]
        ratio = counted(name, usual_length, usual_width) / counted("Elman", usual_length, usual_width)
        what = (
            f"{name} over an Elman layer at n = {usual_length}, d = {usual_width}: {written(sympy.simplify(expected))}"
        )
        return Measure(what, float(expected.subs({n: usual_length, d: usual_width})), ratio, tolerance=1e-9)

    lengths = (8, 16, 32, 64, 128)
    work = {name: [counted(name, length, width) for length in lengths] for name in FORMULAS}
    return Evidence(
        measures=(
            *(cross(pair) for pair in pairs),
            Measure(
                "parameters of attention without projections",
                0,
                count_parameters(_attention(projections=False, output=False)),
            ),
            first(),
            values(),
            usual("attention alone"),
            usual("attention"),
        ),
        wrong=(
            broken_block("scores that are computed twice", EXPLICIT, scores_twice, partial(cross, pairs[0])),
            broken_block(
                "a recurrent layer that maps its input twice", RECURRENCE, inputs_twice, partial(cross, pairs[3])
            ),
            broken_block(
                "a first attention that compares states directly, without matrices",
                "clearhead.blocks.alignment.StateAttention.__init__",
                lambda right: lambda self, **more: right(self, **(more | {"score": "dot"})),
                first,
            ),
        ),
        tables=(table_over_length(lengths, width, work),),
        figures=(
            figure_over_length(
                lengths,
                work,
                title=f"Multiplications of a layer over the length, d = {width}",
                alt="Attention alone crosses the Elman layer at n = d, with projections the GRU at d, the LSTM at 2d.",
            ),
        ),
        notes=(
            "In the usual setting of line 166 attention alone takes a fifth of a recurrent layer's work; with its "
            "projections it takes 2.2 times as much, and its advantage is that nothing waits (L2.2).",
        ),
    )


def _bahdanau(model: nn.Module) -> StateAttention:
    return next(part for part in model.modules() if isinstance(part, StateAttention))
