"""L4.1 to L4.6: multiplications and parameters of self-attention and the feed-forward net, and Table 1."""

import sympy
import torch
from torch import Tensor, nn

from clearhead.attention import MultiHeadAttention, attend
from clearhead.blocks import StandardFeedForward
from clearhead.costing import (
    Cost,
    convolution_layer,
    cost,
    letter,
    matmul_work,
    multihead_work,
    recurrent_layer,
    restricted_layer,
    self_attention_layer,
)
from clearhead.costing.tracing import counted_macs
from clearhead.drawing.figure import Lines, Series
from clearhead.lectures.demonstrations.compare import alike, formula_gap, written
from clearhead.lectures.evidence import Evidence, EvidenceTable, Measure, Wrong
from clearhead.models import count_parameters

n, d, h, k, r = letter("n"), letter("d"), letter("h"), letter("k"), letter("r")


def two_by_three() -> Evidence:
    """L4.1: the very example: six multiplications, three parameters."""
    rows = torch.tensor([[1.0, 2, 3], [4, 5, 6]])
    learnable = nn.Linear(3, 1, bias=False)
    with torch.no_grad():
        learnable.weight.copy_(torch.tensor([[1.0, 2, 3]]))
    counted = counted_macs(lambda: learnable(rows))
    return Evidence(
        measures=(
            alike("the product, (14, 32)", learnable(rows)[:, 0], torch.tensor([14.0, 32.0]), tolerance=0.0),
            Measure("multiplications, formula", "6", str(matmul_work(2, 3, 1))),
            Measure("multiplications, counted as it runs", 6, counted),
            Measure("parameters of the (3 × 1) matrix", 3, count_parameters(learnable)),
        ),
        wrong=(
            Wrong("multiplications and additions counted alike (FLOPs)", Measure("multiplications", 2 * 6, counted)),
            Wrong("parameters that grow with the rows", Measure("parameters", 2 * 3, count_parameters(learnable))),
        ),
    )


def head_by_head() -> Evidence:
    """L4.2: each row of the lecture's derivation, symbolic and counted."""
    work = multihead_work(n, n, h=h, d_q=d, d_v=d, head_q=d / h, head_v=d / h, d_o=d)
    length, width, heads = 20, 48, 4
    module = MultiHeadAttention(width=width, heads=heads, bias=False)
    x = torch.randn(1, length, width)
    one, per_head = length * width**2 // heads, length**2 * width // heads
    q, key, v = (torch.randn(length, width // heads) for _ in range(3))
    parts = {
        "query projection": (one, counted_macs(lambda: module.query(x)) // heads),
        "key projection": (one, counted_macs(lambda: module.key(x)) // heads),
        "value projection": (one, counted_macs(lambda: module.value(x)) // heads),
        "scores": (per_head, counted_macs(lambda: q @ key.T)),
        "values": (per_head, counted_macs(lambda: torch.rand(length, length) @ v)),
        "output projection, all heads": (length * width**2, counted_macs(lambda: module.output(x))),
    }
    return Evidence(
        measures=(
            formula_gap("projections of a head: 3nd²/h", 3 * n * d**2 / h, work.projections / h),
            formula_gap("scores and values of a head: 2n²d/h", 2 * n**2 * d / h, work.attention / h),
            formula_gap("output: nd²", n * d**2, work.output),
            *(Measure(f"{name}, n = {length}, d = {width}, h = {heads}", *pair) for name, pair in parts.items()),
        ),
        wrong=(
            Wrong(
                "heads of the full size: nd² each",
                Measure("query projection", length * width**2, parts["query projection"][1]),
            ),
            Wrong("output nd²/h", formula_gap("output", n * d**2 / h, work.output)),
        ),
    )


def _encoder_layer(*settings: str) -> Cost:
    """The cost of one encoder layer of a small model."""
    return cost("tiny", "model.layers=2", "model.width=64", "model.heads=4", *settings)["encoder"]["layers"]


def self_attention() -> Evidence:
    """L4.3: 4nd² + 2n²d and 4d², as the exact form has them, in three conventions."""
    attention = _encoder_layer("model.attention.bias=false")["attention"]
    with_biases = _encoder_layer()["attention"]
    module = MultiHeadAttention(width=64, heads=4, bias=False)
    module.path = "explicit"
    length, width = 40, 64
    counted = counted_macs(lambda: module(torch.randn(1, length, width)))
    printed = 4 * length * width**2 + 2 * length**2 * width
    causal = cost("tiny", "model.layers=2", "model.width=64", "model.family=lm")["decoder"]["layers"]["attention"]
    seen = causal.causal_macs.at(n=length, B=1)
    what = f"multiplications, n = {length}, d = {width}"
    return Evidence(
        measures=(
            formula_gap(
                "work of the recipe's attention, one line: 4nd² + 2n²d",
                4 * n * d**2 + 2 * n**2 * d,
                _one_line(attention.macs.expression),
            ),
            Measure(f"{what}, counted as it runs", printed, counted),
            Measure("parameters 4d², no biases", 4 * width**2, attention.parameters.at()),
            Measure("parameters built", 4 * width**2, count_parameters(module)),
            Measure("with biases: 4d more", 4 * width, with_biases.parameters.at() - attention.parameters.at()),
            Measure(
                "FLOPs over multiply-accumulates",
                2,
                attention.flops.at(n=length, B=1) // attention.macs.at(n=length, B=1),
            ),
            Measure("a causal mask hides n(n−1)d of it", length * (length - 1) * width, printed - seen),
        ),
        wrong=(
            Wrong("2n²d alone, the printed row O(n²d)", Measure(what, 2 * length**2 * width, counted)),
            Wrong("the output projection forgotten", Measure("parameters", 3 * width**2, count_parameters(module))),
        ),
        tables=(_module_table(length),),
    )


def _one_line(expression: sympy.Expr) -> sympy.Expr:
    """A batch of one, all sizes as letters of this file."""
    return sympy.expand(expression).subs(letter("B"), 1)


def _module_table(length: int) -> EvidenceTable:
    layer = _encoder_layer("model.attention.bias=false", "model.feedforward.bias=false", "model.feedforward.width=256")
    causal = cost("tiny", "model.family=lm", "model.layers=2", "model.width=64", "model.feedforward.width=256")
    rows = []
    for name, part, printed in (
        ("self-attention", "attention", "O(n²d)"),
        ("feed-forward", "feedforward", "O(nd²)"),
    ):
        block, masked = layer[part], causal["decoder"]["layers"][part]
        rows.append(
            (
                name,
                printed,
                block.macs.at(n=length, B=1),
                block.flops.at(n=length, B=1),
                masked.causal_macs.at(n=length, B=1),
                block.parameters.at(),
            )
        )
    return EvidenceTable(
        f"The module table, n = {length}, d = 64, d_ff = 4d, in three conventions",
        ("module", "as printed", "multiply-accumulates", "FLOPs", "with a causal mask", "parameters"),
        tuple(rows),
    )


def feed_forward() -> Evidence:
    """L4.4: 8nd² and 8d², if d_ff = 4d."""
    length, width = 40, 64
    four = _encoder_layer("model.feedforward.width=256", "model.feedforward.bias=false")["feedforward"]
    net = StandardFeedForward(width=width, bias=False)
    other = StandardFeedForward(width=width, hidden=2 * width, bias=False)
    x = torch.randn(1, length, width)
    d_ff = letter("d_ff")
    what = f"multiplications, n = {length}, d = {width}"
    return Evidence(
        measures=(
            formula_gap("work of the recipe's net: 2nd·d_ff", 2 * n * d * d_ff, _one_line(four.macs.expression)),
            formula_gap("with d_ff = 4d: 8nd²", 8 * n * d**2, _one_line(four.macs.expression).subs(d_ff, 4 * d)),
            Measure(f"{what}, counted as it runs", 8 * length * width**2, counted_macs(lambda: net(x))),
            Measure("parameters 8d², no biases", 8 * width**2, four.parameters.at()),
            Measure("parameters built", 8 * width**2, count_parameters(net)),
        ),
        wrong=(
            Wrong("d_ff = 2d", Measure(what, 8 * length * width**2, counted_macs(lambda: other(x)))),
            Wrong("one of the two maps", formula_gap("work", n * d * d_ff, _one_line(four.macs.expression))),
        ),
        tables=(_module_table(length),),
    )


def projections_or_not() -> Evidence:
    """L4.5: attention with and without projections beside a recurrent layer, and where each pair crosses."""
    attention, elman, lstm = self_attention_layer(n, d), recurrent_layer(n, d), recurrent_layer(n, d, gates=4)
    width, length = 32, 20
    bare = MultiHeadAttention(width=width, heads=1, projections=False, output=False)
    whole = MultiHeadAttention(width=width, heads=1, bias=False)
    additive = MultiHeadAttention(width=width, heads=1, score="additive", bias=False)
    for module in (bare, whole):
        module.path = "explicit"
    x = torch.randn(1, length, width)
    counted = {"bare": counted_macs(lambda: bare(x)), "whole": counted_macs(lambda: whole(x))}
    bare_crossing = [root for root in sympy.solve(attention.mixing - elman.macs, n) if root != 0]
    lstm_crossing = [root for root in sympy.solve(attention.macs - lstm.macs, n) if root != 0]
    whole_crossing = [root for root in sympy.solve(attention.macs - elman.macs, n) if root.is_positive]
    lengths = (8, 16, 32, 64, 128, 256)
    rows = [
        (
            length,
            *(
                int(form.subs({n: length, d: width}))
                for form in (attention.mixing, attention.macs, elman.macs, lstm.macs)
            ),
        )
        for length in lengths
    ]
    what = f"multiplications, n = {length}, d = {width}, no projections"
    return Evidence(
        measures=(
            formula_gap("with projections: 2n²d + 4nd²", 2 * n**2 * d + 4 * n * d**2, attention.macs),
            formula_gap("without: 2n²d", 2 * n**2 * d, attention.mixing),
            Measure(f"{what}, counted", 2 * length**2 * width, counted["bare"]),
            Measure("with projections, counted", 2 * length**2 * width + 4 * length * width**2, counted["whole"]),
            Measure("parameters without projections", 0, count_parameters(bare)),
            Measure("without projections, cheaper than a recurrent layer up to n =", "d", str(bare_crossing[0])),
            Measure(
                "with projections, lengths at which it is cheaper than a plain recurrent layer", 0, len(whole_crossing)
            ),
            Measure("with projections, cheaper than an LSTM up to n =", "2·d", written(lstm_crossing[0])),
            Measure(
                "matrices of additive attention: W_Q, W_K, W_V, W_O and u",
                4 * width**2 + width,
                count_parameters(additive),
            ),
        ),
        wrong=(
            Wrong(
                "O(n²d) for attention as it is used",
                Measure("with projections", 2 * length**2 * width, counted["whole"]),
            ),
            Wrong("additive attention without matrices", Measure("parameters", 0, count_parameters(additive))),
        ),
        tables=(
            EvidenceTable(
                f"Multiplications, d = {width}",
                ("n", "attention alone", "with projections", "recurrent", "LSTM"),
                tuple(rows),
            ),
        ),
        figures=(
            Lines(
                title=f"Multiplications of a layer over the length, d = {width}",
                alt="Attention alone crosses the recurrent layer at n = d; with projections the LSTM at n = 2d.",
                x_label="tokens n",
                y_label="multiplications",
                log_x=True,
                log_y=True,
                series=tuple(
                    Series(name, tuple(float(row[0]) for row in rows), tuple(float(row[column]) for row in rows))
                    for column, name in enumerate(("attention alone", "with projections", "recurrent", "LSTM"), start=1)
                ),
            ),
        ),
    )


def table_one() -> Evidence:
    """L4.6: the four layers of Table 1: work and sequential steps, counted, and the path length, by derivative."""
    width, kernel, near = 8, 3, 8
    counted = {length: _measured(length, width, kernel, near) for length in (64, 128)}
    forms = {
        "self-attention": self_attention_layer(n, d),
        "recurrent": recurrent_layer(n, d),
        "convolution": convolution_layer(n, d, k),
        "restricted": restricted_layer(n, d, r),
    }
    sizes = {n: 64, d: width, k: kernel, r: near}
    claimed = {"self-attention": n**2 * d, "recurrent": n * d**2, "convolution": k * n * d**2, "restricted": r * n * d}
    rows = []
    measures = []
    for name, form in forms.items():
        macs, waiting, path = counted[64][name]
        ratio = sympy.simplify(form.mixing / claimed[name])
        measures.append(Measure(f"{name}: work over the table's, a constant", True, bool(ratio.is_number)))
        measures.append(Measure(f"{name}: multiplications counted, n = 64", int(form.mixing.subs(sizes)), macs))
        measures.append(Measure(f"{name}: sequential steps, n = 64", int(form.sequential.subs(sizes)), waiting))
        rows.append((name, written(claimed[name]), macs, waiting, path))
    far = {name: (counted[64][name][2], counted[128][name][2]) for name in forms}
    measures += [
        Measure("path of self-attention, n = 64", 1, far["self-attention"][0]),
        Measure("path of the recurrent net, n = 64", 64, far["recurrent"][0]),
        Measure("path of dilated convolutions, n = 64: ⌈log₃ 64⌉", 4, far["convolution"][0]),
        Measure("path of restricted attention, n = 64: ⌈63/(r − 1)⌉", 9, far["restricted"][0]),
        Measure("path of restricted attention over n/r, n = 128", 1.2, far["restricted"][1] * near / 128, relation="≤"),
    ]
    return Evidence(
        measures=tuple(measures),
        wrong=(
            Wrong(
                "restricted attention that reaches everything at once", Measure("path, n = 64", 1, far["restricted"][0])
            ),
            Wrong(
                "a recurrent net that does not wait",
                Measure("sequential steps, n = 64", 1, counted[64]["recurrent"][1]),
            ),
            Wrong(
                "convolutions that reach as far as they are wide",
                Measure("path, n = 64", 64 // kernel, far["convolution"][0]),
            ),
        ),
        tables=(
            EvidenceTable(
                f"Table 1, measured: n = 64, d = {width}, k = {kernel}, r = {near}",
                ("layer", "work, the table", "counted", "sequential steps", "path"),
                tuple(rows),
            ),
        ),
        notes=(
            "Counted multiplications are those of the layer without its projections, a constant factor above the "
            "table's orders; the path is the number of layers, or of steps, after which the last output depends on the "
            "first token.",
        ),
    )


def _measured(length: int, width: int, kernel: int, near: int) -> dict[str, tuple[int, int, int]]:
    """For each layer: multiplications, sequential steps, and layers until the ends are connected."""
    x = torch.randn(1, length, width)
    bare = MultiHeadAttention(width=width, heads=1, projections=False, output=False)
    bare.path = "explicit"
    cell = nn.RNNCell(width, width, bias=False)
    steps = 0

    def recurrent(tokens: Tensor) -> Tensor:
        nonlocal steps
        state, states, steps = torch.zeros(1, width), [], 0
        for token in tokens[0]:
            state = cell(token[None], state)
            states.append(state)
            steps += 1
        return torch.stack(states, dim=1)

    def convolution(tokens: Tensor, gap: int = 1) -> Tensor:
        layer = nn.Conv1d(width, width, kernel, dilation=gap, bias=False)
        padded = nn.functional.pad(tokens.mT, ((kernel - 1) * gap, 0))
        out: Tensor = layer(padded).mT
        return out

    def restricted(tokens: Tensor) -> Tensor:
        """Each token attends to r tokens, itself and those before it; no other scores are computed."""
        padded = nn.functional.pad(tokens, (0, 0, near - 1, 0))[0]
        windows = padded.unfold(0, near, 1).mT  # (n, r, d)
        real = (torch.arange(length)[:, None] + torch.arange(near) >= near - 1)[:, None]
        return attend(tokens[0][:, None], windows, windows, mask=real, choice="soft", score=_dot)[None, :, 0]

    work = {
        "self-attention": counted_macs(lambda: bare(x)),
        "recurrent": counted_macs(lambda: recurrent(x)),
        "convolution": counted_macs(lambda: convolution(x)),
        "restricted": counted_macs(lambda: restricted(x)),
    }
    paths = {
        "self-attention": _layers_to_meet(x, lambda tokens, _depth: bare(tokens)),
        "recurrent": steps,
        "convolution": _layers_to_meet(x, lambda tokens, depth: convolution(tokens, kernel**depth)),
        "restricted": _layers_to_meet(x, lambda tokens, _depth: restricted(tokens)),
    }
    return {name: (work[name], steps if name == "recurrent" else 1, paths[name]) for name in work}


def _dot(query: Tensor, keys: Tensor) -> Tensor:
    return query @ keys.mT


def _layers_to_meet(x: Tensor, layer: object) -> int:
    """How many layers it takes until the last output depends on the first token, by derivative."""
    assert callable(layer)
    tokens = x.clone().requires_grad_()
    out, depth = tokens, 0
    while True:
        out = layer(out, depth)
        depth += 1
        (gradient,) = torch.autograd.grad(out[0, -1].sum(), tokens, retain_graph=True)
        if bool((gradient[0, 0] != 0).any()):
            return depth
