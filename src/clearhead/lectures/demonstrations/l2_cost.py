"""L2.1 to L2.3, L2.13 and L2.14: path length, sequential operations, quadratic work, many heads, and Linformer."""

from collections import deque
from functools import partial

import sympy
import torch
from torch import Tensor, nn

from clearhead.attention import LinformerAttention, MultiHeadAttention
from clearhead.costing import cost, letter, multihead_work, recurrent_layer, self_attention_layer
from clearhead.costing.tracing import counted_macs
from clearhead.drawing.figure import Lines, Series
from clearhead.errors import RecipeError
from clearhead.lectures.demonstrations import toy
from clearhead.lectures.demonstrations.compare import alike, formula_gap
from clearhead.lectures.demonstrations.pytorch import randomise
from clearhead.lectures.evidence import Evidence, EvidenceTable, Measure, Wrong
from clearhead.recipe import read_recipe

n, d = letter("n"), letter("d")


def interaction_distance() -> Evidence:
    """L2.1: the shortest way from the first token to the last output, in the formula and in torch's own graph."""
    width, lengths = 8, (4, 8, 16, 32)
    attention, cell = MultiHeadAttention(width=width, heads=2), nn.RNNCell(width, width)

    def attended(tokens: list[Tensor]) -> Tensor:
        out: Tensor = attention(torch.stack(tokens)[None])[0, -1]
        return out

    def recurrent(tokens: list[Tensor]) -> Tensor:
        state = torch.zeros(1, width)
        for token in tokens:
            state = cell(token[None], state)
        return state[0]

    ways = {
        name: [_shortest_way(run, length) for length in lengths]
        for name, run in (("attention", attended), ("recurrent", recurrent))
    }
    step = (ways["recurrent"][1] - ways["recurrent"][0]) // (lengths[1] - lengths[0])
    grown = {name: way[-1] - way[0] for name, way in ways.items()}
    what = "operations that a token 32 away has to pass more than one 4 away"
    return Evidence(
        measures=(
            Measure("path length of self-attention, formula", "1", str(self_attention_layer(n, d).path)),
            Measure("path length of a recurrent net, formula", "n", str(recurrent_layer(n, d).path)),
            Measure(f"{what}: attention", 0, grown["attention"]),
            Measure(f"{what}: recurrent, {step} a token", step * (32 - 4), grown["recurrent"]),
        ),
        wrong=(Wrong("a recurrent net taken for one that reaches in O(1)", Measure(what, 0, grown["recurrent"])),),
        tables=(
            EvidenceTable(
                "Operations on the shortest way from the first token to the last output, in torch's graph",
                ("tokens", "attention", "recurrent"),
                tuple(zip(lengths, ways["attention"], ways["recurrent"], strict=True)),
            ),
        ),
        figures=(
            Lines(
                title="How far the first token is from the last output",
                alt="In the recurrent net the distance grows with the length, in attention it stays the same.",
                x_label="tokens",
                y_label="operations",
                series=tuple(
                    Series(name, tuple(map(float, lengths)), tuple(map(float, way))) for name, way in ways.items()
                ),
            ),
        ),
    )


def _shortest_way(run: object, length: int) -> int:
    """Nodes of the autograd graph between the last output and the first token, by breadth-first search."""
    assert callable(run)
    tokens = [torch.randn(8, requires_grad=True) for _ in range(length)]
    result: Tensor = run(tokens)
    seen, waiting = set(), deque([(result.grad_fn, 0)])
    while waiting:
        node, steps = waiting.popleft()
        if node is None or node in seen:
            continue
        seen.add(node)
        if getattr(node, "variable", None) is tokens[0]:
            return steps
        waiting.extend((following, steps + 1) for following, _ in node.next_functions)
    raise ValueError("the first token has no influence")


def parallel_training() -> Evidence:
    """L2.2: span over the length: training hardly grows, decoding does with every token; and how often a model runs."""
    lengths = (16, 64, 256, 1024)
    model = cost("tiny", "model.layers=2")
    training = [model.span.at(n=32, m=length, B=1) for length in lengths]
    decoding = [model.decode_span.at(n=32, m=length, B=1) for length in lengths]
    calls = {length: _calls(length) for length in (4, 8)}
    what = "operations in a row, m = 1024 against m = 16"
    x = tuple(map(float, lengths))
    return Evidence(
        measures=(
            Measure(f"{what}: training", 1.5, training[-1] / training[0], relation="≤"),
            Measure(f"{what}: greedy decoding", 64.0, decoding[-1] / decoding[0], relation="≥"),
            Measure("sequential runs of the decoder to train on 8 tokens", 1, calls[8][0]),
            Measure("sequential runs of the decoder to write 8 tokens", 8, calls[8][1]),
        ),
        wrong=(
            Wrong("decoding taken for training", Measure(what, 1.5, decoding[-1] / decoding[0], relation="≤")),
            Wrong("writing in one run", Measure("runs of the decoder to write 8 tokens", 1, calls[8][1])),
        ),
        tables=(
            EvidenceTable(
                "Sequential operations (tiny, 2 layers, 32 source tokens)",
                ("target tokens m", "training", "greedy decoding"),
                tuple(zip(lengths, training, decoding, strict=True)),
            ),
        ),
        figures=(
            Lines(
                title="Sequential operations, over the length of the target",
                alt="Training stays nearly level; decoding rises in proportion to the length.",
                x_label="target tokens m",
                y_label="span",
                log_x=True,
                log_y=True,
                series=(
                    Series("training", x, tuple(map(float, training))),
                    Series("decoding", x, tuple(map(float, decoding))),
                ),
            ),
        ),
    )


def _calls(length: int) -> tuple[int, int]:
    """How often the decoder runs to score a target of this length, and to write one."""
    model = toy.untrained(seed=1)
    count = 0

    def note(_module: nn.Module, _inputs: object) -> None:
        nonlocal count
        count += 1

    handle = model.decoder.register_forward_pre_hook(note)
    source = torch.randint(toy.FIRST, toy.FIRST + toy.LETTERS, (1, length))
    with torch.no_grad():
        model(source, source)
        taught, count = count, 0
        state, token = model.start(source), torch.tensor([[toy.BOS]])
        for _ in range(length):
            token = model.step(token, state).argmax(-1, keepdim=True)
    handle.remove()
    return taught, count


def quadratic_all_the_same() -> Evidence:
    """L2.3: attention alone against a recurrent layer: fewer multiplications while n < d, more beyond."""
    attention, recurrent = self_attention_layer(n, d), recurrent_layer(n, d)
    (crossover,) = (root for root in sympy.solve(attention.mixing - recurrent.macs, n) if root != 0)
    width = 32
    lengths = (8, 16, 32, 64, 128)
    bare = MultiHeadAttention(width=width, heads=1, projections=False, output=False)
    bare.path = "explicit"
    counted: dict[str, list[int]] = {"attention": [], "recurrent": []}
    for length in lengths:
        x = torch.randn(1, length, width)
        counted["attention"].append(counted_macs(partial(bare, x)))
        counted["recurrent"].append(counted_macs(partial(_elman, x)))
    work = {"attention": [2 * k**2 * width for k in lengths], "recurrent": [2 * k * width**2 for k in lengths]}
    at_d = lengths.index(width)
    grow = counted["attention"][-1] / counted["attention"][-2]
    x_axis = tuple(map(float, lengths))
    return Evidence(
        measures=(
            Measure("n at which 2n²d overtakes 2nd², solved", "d", str(crossover)),
            Measure(
                f"multiplications at n = d = {width}: attention", counted["recurrent"][at_d], counted["attention"][at_d]
            ),
            Measure(
                "lengths at which the counts are not as the formulas say", 0, sum(counted[k] != work[k] for k in work)
            ),
            Measure("work of attention when n doubles", 4.0, grow),
        ),
        wrong=(
            Wrong("attention taken for linear in n", Measure("work of attention when n doubles", 2.0, grow)),
            Wrong(
                "attention cheaper at every length",
                Measure(
                    f"multiplications at n = 4d = {lengths[-1]}",
                    counted["recurrent"][-1],
                    counted["attention"][-1],
                    relation="≤",
                ),
            ),
        ),
        tables=(
            EvidenceTable(
                f"Multiplications counted, d = {width}",
                ("n", "attention: 2n²d", "recurrent: 2nd²"),
                tuple(zip(lengths, counted["attention"], counted["recurrent"], strict=True)),
            ),
        ),
        figures=(
            Lines(
                title=f"Multiplications over the length, d = {width}: they cross at n = d",
                alt="Attention is below the recurrent layer up to n = 32 and above it beyond.",
                x_label="tokens n",
                y_label="multiplications",
                log_x=True,
                log_y=True,
                series=(
                    Series("attention: 2n²d", x_axis, tuple(map(float, counted["attention"]))),
                    Series("recurrent: 2nd²", x_axis, tuple(map(float, counted["recurrent"]))),
                ),
            ),
        ),
    )


def _elman(x: Tensor) -> Tensor:
    cell, state = nn.RNNCell(x.shape[-1], x.shape[-1], bias=False), torch.zeros(1, x.shape[-1])
    for token in x[0]:
        state = cell(token[None], state)
    return state


def heads_cost_the_same() -> Evidence:
    """L2.13: with heads of size d/h the products cost the same for every h; the softmax costs h times as much."""
    h = letter("h")
    work = multihead_work(n, n, h=h, d_q=d, d_v=d, head_q=d / h, head_v=d / h, d_o=d)
    width, length, counts = 48, 20, (1, 2, 4, 8)
    counted, chosen = [], []
    x = torch.randn(1, length, width)
    for heads in counts:
        module = MultiHeadAttention(width=width, heads=heads, bias=False)
        module.path = "explicit"
        weights: list[int] = []
        module.weights.register_forward_hook(lambda _module, _inputs, out, weights=weights: weights.append(out.numel()))
        counted.append(counted_macs(partial(module, x)))
        chosen.append(weights[0])
    full = MultiHeadAttention(width=width, heads=8, query_size=width, value_size=width, bias=False)
    full.path = "explicit"
    what = "multiplications with 8 heads against 1"
    return Evidence(
        measures=(
            formula_gap(
                "work of h heads of size d/h: 4nd² + 2n²d", 4 * n * d**2 + 2 * n**2 * d, sympy.expand(work.total)
            ),
            Measure(what, 1.0, counted[-1] / counted[0]),
            Measure("weights to be normalised with 8 heads against 1", 8.0, chosen[-1] / chosen[0]),
        ),
        wrong=(Wrong("heads of the full size d", Measure(what, 1.0, counted_macs(lambda: full(x)) / counted[0])),),
        tables=(
            EvidenceTable(
                f"n = {length}, d = {width}",
                ("heads", "multiplications", "weights hn²"),
                tuple(zip(counts, counted, chosen, strict=True)),
            ),
        ),
    )


def linformer() -> Evidence:
    """L2.14: Linformer with k = n and E = I is full attention; its work is linear; where it becomes cheaper."""
    width, heads, length = 16, 2, 12
    full = MultiHeadAttention(width=width, heads=heads)
    randomise(full)
    lin = LinformerAttention(width=width, heads=heads, rank=length, length=length)
    lin.load_state_dict(full.state_dict(), strict=False)
    x = torch.randn(2, length, width)
    with torch.no_grad():
        for part in (lin.shrink_keys, lin.shrink_values):
            part.weight.copy_(torch.eye(length)[None])
        exact = (lin(x), full(x))
        lin.shrink_keys.weight.copy_(torch.eye(length)[None].flip(-1))
        mirrored = lin(x)
        lin.shrink_keys.weight.copy_(torch.randn(1, length, length) / length**0.5)
        mixed = lin(x)
    rank = 16
    lengths = (16, 32, 64, 128, 256)
    counted = {name: [_macs(name, k, width, heads, rank) for k in lengths] for name in ("full", "linformer")}
    formulas = {
        "full": [4 * k * width**2 + 2 * k**2 * width for k in lengths],
        "linformer": [4 * k * width**2 + 4 * k * rank * width for k in lengths],
    }
    growth = counted["linformer"][-1] / counted["linformer"][-2]
    try:
        read_recipe("tiny", "model.decoder.attention.kind=linformer")
        refused = "is built"
    except RecipeError:
        refused = "is refused"
    name = "k = n, E = F = I, against full attention"
    at_2k = lengths.index(2 * rank)
    x_axis = tuple(map(float, lengths))
    return Evidence(
        measures=(
            alike(name, *exact),
            Measure(
                "lengths at which the counts are not 4nd² + 2n²d and 4nd² + 4nkd",
                0,
                sum(counted[key] != formulas[key] for key in counted),
            ),
            Measure("work of Linformer when n doubles", 2.0, growth),
            Measure(f"work of Linformer at n = 2k = {2 * rank}", counted["full"][at_2k], counted["linformer"][at_2k]),
            Measure("Linformer in a decoder, where a slot would mix in the future", "is refused", refused),
        ),
        wrong=(
            Wrong("E mixes the positions", alike(name, mixed, exact[1])),
            Wrong("E puts keys, and not values, in another order", alike(name, mirrored, exact[1])),
            Wrong(
                "full attention taken for linear",
                Measure("work when n doubles", 2.0, counted["full"][-1] / counted["full"][-2]),
            ),
        ),
        figures=(
            Lines(
                title=f"Multiplications over the length, d = {width}, k = {rank}: they cross at n = 2k",
                alt="Full attention bends upwards; Linformer is a straight line and cheaper from n = 32 on.",
                x_label="tokens n",
                y_label="multiplications",
                log_x=True,
                log_y=True,
                series=(
                    Series("full: 4nd² + 2n²d", x_axis, tuple(map(float, counted["full"]))),
                    Series("Linformer: 4nd² + 4nkd", x_axis, tuple(map(float, counted["linformer"]))),
                ),
            ),
        ),
    )


def _macs(name: str, length: int, width: int, heads: int, rank: int) -> int:
    module = (
        MultiHeadAttention(width=width, heads=heads, bias=False)
        if name == "full"
        else LinformerAttention(width=width, heads=heads, rank=rank, length=length, bias=False)
    )
    module.path = "explicit"
    x = torch.randn(1, length, width)
    return counted_macs(lambda: module(x))
