"""L2.1 to L2.3: how far tokens are apart, what has to wait, and what grows with the square of the length."""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.attention import MultiHeadAttention
from clearhead.blocks import Recurrence
from clearhead.costing import cost, letter, recurrent_layer, self_attention_layer
from clearhead.costing.tracing import attention_path, watch, written_out
from clearhead.costing.tracing.layers import attention_layer, measure
from clearhead.decoding import ModelStepper, Rules, greedy
from clearhead.drawing.figure import Lines, Series
from clearhead.lectures.demonstrations import toy
from clearhead.lectures.demonstrations.broken import broken_block
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
from clearhead.lectures.demonstrations.sequential import EXPLICIT, key_by_key
from clearhead.lectures.evidence import Evidence, EvidenceTable, Measure
from clearhead.models import Seq2Seq, build
from clearhead.recipe import read_recipe

n, d = letter("n"), letter("d")
FORMS = {"attention": self_attention_layer(n, d), "recurrent": recurrent_layer(n, d)}
NEAR, FAR, WIDTH = 4, 32, 8


def interaction_distance() -> Evidence:
    """L2.1: what lies between the first token and the last output, and what is left of the gradient."""
    attention = MultiHeadAttention(width=WIDTH, heads=2)
    attention.path = "explicit"
    recurrent = Recurrence(cell="elman", inputs=WIDTH, state=WIDTH)
    lengths = (NEAR, 8, 16, FAR)

    def layers(length: int) -> int:
        """Layers of attention until the last output depends on the first token, by derivative."""
        return measure(lambda _depth: attention_layer(WIDTH), length=length, width=WIDTH).layers

    distance: dict[str, Callable[[int], int]] = {"attention": layers, "recurrent": partial(steps_between, recurrent)}

    def apart(name: str, length: int) -> Measure:
        path = FORMS[name].path
        what = f"layers or steps between the ends of {length} tokens: {name}, O({path})"
        return Measure(what, int(path.subs(n, length)), distance[name](length))

    table = {name: [found(length) for length in lengths] for name, found in distance.items()}
    slope = {
        name: _gradient(run, FAR) / _gradient(run, NEAR)
        for name, run in (
            ("attention", lambda tokens: attention(tokens)[:, -1]),
            ("recurrent", lambda tokens: recurrent(tokens)[1][0]),
        )
    }
    x = tuple(map(float, lengths))
    return Evidence(
        measures=(
            *(apart(name, length) for name in distance for length in (NEAR, FAR)),
            Measure(
                f"gradient of the first token, {FAR} away against {NEAR} away: attention, of the order of {NEAR}/{FAR}",
                NEAR / FAR / 4,
                slope["attention"],
                relation="≥",
            ),
            Measure("the same: recurrent", NEAR / FAR / 100, slope["recurrent"], relation="≤"),
        ),
        wrong=(
            broken_block(
                "attention to the three tokens before alone",
                "clearhead.attention.context.AttentionContext.mask",
                lambda _right: lambda _self, rows, keys, _device: torch.ones(rows, keys).tril().triu(-3).bool(),
                partial(apart, "attention", FAR),
            ),
            broken_block(
                "a recurrent layer that forgets its state",
                "clearhead.blocks.recurrence.Recurrence.step",
                lambda right: lambda self, gates, state: right(self, gates, (torch.zeros_like(state[0]),)),
                partial(apart, "recurrent", FAR),
            ),
        ),
        tables=(
            EvidenceTable(
                "Layers of attention, and steps of a recurrent layer, between the first token and the last output",
                ("tokens", *table),
                tuple((length, *(found[row] for found in table.values())) for row, length in enumerate(lengths)),
            ),
        ),
        figures=(
            Lines(
                title="How far the first token is from the last output",
                alt="In the recurrent net the distance grows with the length, in attention it stays the same.",
                x_label="tokens",
                y_label="layers or steps",
                series=tuple(Series(name, x, tuple(map(float, found))) for name, found in table.items()),
            ),
        ),
    )


def steps_between(recurrent: Any, length: int) -> int:
    """Steps of a recurrent layer on the way from the first token to the last output, in torch's graph."""
    one, two, all_of_them = (_way(recurrent, count) for count in (1, 2, length))
    if one is None or two is None or all_of_them is None:
        return 0  # there is no way
    return 1 + (all_of_them - one) // (two - one)


def _way(recurrent: Recurrence, length: int) -> int | None:
    """Nodes of the autograd graph from the last state to the first token; None if it has no influence."""
    tokens = [torch.randn(1, recurrent.size, requires_grad=True) for _ in range(length)]
    state: tuple[Tensor, ...] = (torch.zeros(1, recurrent.size),)
    for token in tokens:
        state = recurrent.step(recurrent.gates(token), state)
    seen, waiting = set(), deque([(state[0].grad_fn, 0)])
    while waiting:
        node, steps = waiting.popleft()
        if node is None or node in seen:
            continue
        seen.add(node)
        if getattr(node, "variable", None) is tokens[0]:
            return steps
        waiting.extend((following, steps + 1) for following, _ in node.next_functions)
    return None


def _gradient(last_output: Callable[[Tensor], Tensor], length: int) -> float:
    """‖∂(last output)/∂(first token)‖, the mean of a few draws."""
    total = 0.0
    for draw in range(4):
        tokens = torch.randn(1, length, WIDTH, generator=torch.Generator().manual_seed(draw)).requires_grad_()
        (slope,) = torch.autograd.grad(last_output(tokens).square().sum(), tokens)
        total += float(slope[0, 0].norm())
    return total / 4


SMALL = ("model.layers=1", "model.width=16", "model.vocabulary.source=9", "model.vocabulary.target=9")
PRESETS = {"Transformer": ("tiny", "model.heads=2"), "recurrent": ("rnn-luong",)}


def parallel_training() -> Evidence:
    """L2.2: what has to wait in the forward pass, in the backward pass, and in decoding; for both kinds of net."""
    models = {name: _model(*words) for name, words in PRESETS.items()}
    spans = {name: cost(words[0], *SMALL, *words[1:]) for name, words in PRESETS.items()}
    lengths = (8, 16, 32)

    def forward(name: str, length: int) -> Measure:
        seen, expected = _forward(models[name], length), spans[name].span.at(n=length, m=length, B=1)
        return Measure(
            f"forward pass of the {name}, {length} tokens: longest path, formula and as it runs", expected, seen
        )

    def backward(name: str) -> Measure:
        """How much the backward pass grows, in steps of one token."""
        found = {length: _backward(models[name], length) for length in (8, 9, 24)}
        more = {"Transformer": 0, "recurrent": 24 - 8}[name]
        steps = (found[24] - found[8]) // max(found[9] - found[8], 1)
        return Measure(f"backward pass of the {name}: steps that 24 tokens wait longer than 8", more, steps)

    def writing(length: int) -> Measure:
        return Measure(f"runs of the decoder, one after another, to write {length} tokens", length, _calls(length)[1])

    def taught(length: int) -> Measure:
        return Measure(f"runs of the decoder to train on {length} tokens", 1, _calls(length)[0])

    decoding = [spans["Transformer"].decode_span.at(n=32, m=length, B=1) for length in lengths]
    training = {name: [_forward(model, length) for length in lengths] for name, model in models.items()}
    back = {name: [_backward(model, length) for length in lengths] for name, model in models.items()}
    x = tuple(map(float, lengths))
    return Evidence(
        measures=(
            *(forward(name, length) for name in models for length in lengths[:2]),
            *(backward(name) for name in models),
            taught(8),
            writing(4),
            writing(8),
            Measure(
                "sequential operations that a further token adds to decoding, tokens 17–32 against 9–16",
                1.0,
                (decoding[2] - decoding[1])
                / (lengths[2] - lengths[1])
                * (lengths[1] - lengths[0])
                / (decoding[1] - decoding[0]),
                relation="≥",
            ),
        ),
        wrong=(
            broken_block(
                "attention on one key after another, forward", EXPLICIT, key_by_key, partial(forward, "Transformer", 16)
            ),
            broken_block(
                "attention on one key after another, backward", EXPLICIT, key_by_key, partial(backward, "Transformer")
            ),
            broken_block(
                "training that feeds one token after another",
                "clearhead.models.seq2seq.Seq2Seq.states",
                lambda right: (
                    lambda self, source, target, *valid: torch.cat(
                        [right(self, source, target[:, : end + 1], *valid)[:, -1:] for end in range(target.shape[1])],
                        dim=1,
                    )
                ),
                partial(taught, 8),
            ),
        ),
        tables=(
            EvidenceTable(
                "Operations that wait for each other: arithmetic steps; backward, nodes of torch's graph",
                ("tokens", "Transformer", "backward", "recurrent", "backward", "Transformer, decoding"),
                tuple(
                    (
                        length,
                        training["Transformer"][row],
                        back["Transformer"][row],
                        training["recurrent"][row],
                        back["recurrent"][row],
                        decoding[row],
                    )
                    for row, length in enumerate(lengths)
                ),
            ),
        ),
        figures=(
            Lines(
                title="Operations that wait for each other, over the number of tokens",
                alt="Training a Transformer stays nearly level; a recurrent net and decoding rise with the length.",
                x_label="tokens",
                y_label="longest path",
                log_x=True,
                log_y=True,
                series=(
                    *(Series(f"training, {name}", x, tuple(map(float, row))) for name, row in training.items()),
                    Series("decoding, Transformer", x, tuple(map(float, decoding))),
                ),
            ),
        ),
    )


def _model(preset: str, *settings: str) -> Seq2Seq:
    model = build(read_recipe(preset, *SMALL, *settings), seed=1).eval()
    assert isinstance(model, Seq2Seq)
    attention_path(model, "explicit")
    return model


def _lines(length: int) -> tuple[Tensor, Tensor]:
    return torch.full((1, length), 5), torch.full((1, length), 6)


def _forward(model: Seq2Seq, length: int) -> int:
    source, target = _lines(length)
    with torch.no_grad():
        return watch(lambda: model(source, target), model, [source, target]).span


def _backward(model: Seq2Seq, length: int) -> int:
    """The longest path through the graph that the backward pass walks."""
    with torch.enable_grad(), written_out():
        end = model(*_lines(length)).sum().grad_fn
    depth: dict[object, int] = {}
    waiting: list[tuple[Any, bool]] = [(end, False)]
    while waiting:
        node, done = waiting.pop()
        after = [following for following, _ in node.next_functions if following is not None]
        if done:
            depth[node] = 1 + max((depth[following] for following in after), default=0)
        elif node not in depth:
            waiting += [(node, True), *((following, False) for following in after)]
    return depth[end]


def _calls(length: int) -> tuple[int, int]:
    """How often the decoder runs to score a target of this length, and to write one by greedy search."""
    model = toy.untrained(seed=1)
    count = 0

    def note(_module: nn.Module, _inputs: object) -> None:
        nonlocal count
        count += 1

    handle = model.decoder.register_forward_pre_hook(note)
    source = torch.randint(toy.FIRST, toy.FIRST + toy.LETTERS, (1, length))
    with torch.inference_mode():
        model(source, source)
        taught, count = count, 0
        greedy(
            ModelStepper.reading(model, source, None),
            Rules(longest=[length], banned=[toy.EOS]),
            first=[toy.BOS],
            eos=toy.EOS,
        )
    handle.remove()
    return taught, count


def quadratic_all_the_same() -> Evidence:
    """L2.3: attention against recurrent layers: where each pair crosses, with and without projections."""
    width, lengths = 16, (8, 16, 32, 64)
    pairs = (("attention alone", "Elman"), ("attention", "Elman"), ("attention", "GRU"), ("attention", "LSTM"))
    work = {name: [counted(name, length, width) for length in lengths] for name in FORMULAS}

    def exact(name: str) -> Measure:
        expected = int(FORMULAS[name].subs({n: lengths[1], d: width}))
        return Measure(
            f"multiplications of {name}, n = d = {width}, formula and counted",
            expected,
            counted(name, lengths[1], width),
        )

    def growth() -> Measure:
        many, few = (counted("attention alone", length, width) for length in (64, 32))
        return Measure(
            "work of attention alone when n doubles, over that of an Elman layer",
            2.0,
            many / few / (counted("Elman", 64, width) / counted("Elman", 32, width)),
        )

    def cross(pair: tuple[str, str]) -> Measure:
        return crossing_measures(*pair, width)[0]

    return Evidence(
        measures=(*(exact(name) for name in FORMULAS), *(cross(pair) for pair in pairs), growth()),
        wrong=(
            broken_block("scores that are computed twice", EXPLICIT, scores_twice, partial(cross, pairs[0])),
            broken_block(
                "a recurrent layer that maps its input twice", RECURRENCE, inputs_twice, partial(cross, pairs[3])
            ),
            broken_block(
                "attention to the first token alone: linear in n",
                "clearhead.attention.paths.attend_heads",
                lambda right: (
                    lambda method, query, keys, values, context: right(
                        method, query, keys[:, :, :1], values[:, :, :1], context
                    )
                ),
                growth,
            ),
        ),
        tables=(table_over_length(lengths, width, work),),
        figures=(
            figure_over_length(
                lengths,
                work,
                title=f"Multiplications over the length, d = {width}",
                alt="Attention alone crosses the Elman layer at n = d, attention with projections the LSTM at n = 2d.",
            ),
        ),
    )
