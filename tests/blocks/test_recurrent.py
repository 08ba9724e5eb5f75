"""Recurrent nets and their attention, against plain loops that are written here (L1.2, L1.3)."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from clearhead.blocks import Memory, Recurrence, RecurrentEncoder
from clearhead.models import build
from clearhead.recipe import read_recipe

CELLS = ["gru", "lstm", "elman"]
SMALL = ["model.vocabulary.source=20", "model.vocabulary.target=20", "model.width=8"]


# ---- the literal recurrences, one feature vector at a time ----


def sigma(x: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-x))


def one_step(layer: Any, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Cho's GRU in the form of torch's documentation, Hochreiter's LSTM with a forget gate, Elman's net."""
    W, U, b, c = layer.input.weight, layer.carry.weight, layer.input.bias, layer.carry.bias
    s, size = state[0], layer.size

    def gate(number: int, reset: Any = 1) -> Any:
        rows = slice(number * size, (number + 1) * size)
        return W[rows] @ x + b[rows] + reset * (U[rows] @ s + c[rows])

    if layer.cell == "elman":
        return (torch.tanh(gate(0)),)
    if layer.cell == "gru":
        r, z = sigma(gate(0)), sigma(gate(1))
        return ((1 - z) * torch.tanh(gate(2, r)) + z * s,)
    i, f, g, o = (gate(number) for number in range(4))
    cell = sigma(f) * state[1] + sigma(i) * torch.tanh(g)
    return sigma(o) * torch.tanh(cell), cell


def zeros(layer: Any) -> tuple[Tensor, ...]:
    return tuple(torch.zeros(layer.size) for _ in range(2 if layer.cell == "lstm" else 1))


def large(module: Any) -> Any:
    """Weights that make every part matter."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, 0.4, generator=generator)
    return module.eval()


@pytest.mark.parametrize("cell", CELLS)
@torch.no_grad()
def test_a_layer_is_its_equations(cell: Any) -> None:
    """The whole sequence by torch's kernel, and step by step, equal the literal equations; other gates do not."""
    layer = large(Recurrence(cell=cell, inputs=5, state=4))
    x = torch.randn(3, 6, 5)
    start = tuple(torch.randn(3, 4) for _ in zeros(layer))
    states, end = layer(x, start)
    gates, carried = layer.gates(x), start
    for place in range(6):
        carried = layer.step(gates[:, place], carried)
        torch.testing.assert_close(carried[0], states[:, place])
    for row in range(3):
        state = tuple(part[row] for part in start)
        for place in range(6):
            state = one_step(layer, x[row, place], state)
            torch.testing.assert_close(states[row, place], state[0])
        for mine, expected, stepped in zip(end, state, carried, strict=True):
            torch.testing.assert_close(mine[row], expected)
            torch.testing.assert_close(stepped[row], expected)
    layer.carry.weight[:4], layer.carry.weight[-4:] = layer.carry.weight[-4:].clone(), -layer.carry.weight[:4].clone()
    assert not torch.allclose(layer(x, start)[0], states, atol=1e-2)


@pytest.mark.parametrize("cell", CELLS)
def test_gradients(cell: Any) -> None:
    """gradcheck in float64, of both ways."""
    layer = Recurrence(cell=cell, inputs=3, state=2).double()
    x = torch.randn(2, 3, 3, dtype=torch.float64, requires_grad=True)
    start = tuple(torch.randn(2, 2, dtype=torch.float64, requires_grad=True) for _ in zeros(layer))

    def stepped(x: Tensor, *start: Tensor) -> Tensor:
        state: tuple[Tensor, ...] = start
        for place in range(3):
            state = layer.step(layer.gates(x[:, place]), state)
        return state[0]

    assert torch.autograd.gradcheck(lambda x, *start: layer(x, start)[0], (x, *start))
    assert torch.autograd.gradcheck(stepped, (x, *start))


@pytest.mark.parametrize("cell", CELLS)
@torch.no_grad()
def test_an_encoder_reads_both_ways(cell: str) -> None:
    """Two layers, both directions, against loops; a net that reads right to left only from the left is noticed."""
    recipe = read_recipe(None, "model.family=recurrent", "model.layers=2", f"model.cell={cell}", *SMALL)
    encoder: Any = large(build(recipe)).encoder
    assert type(encoder) is RecurrentEncoder
    ids = torch.tensor([[5, 6, 7, 8, 9]])

    def read(backwards: bool) -> Tensor:
        x = list(encoder.embedding.tokens(ids[0]) * math.sqrt(8))
        for layer in encoder.layers:
            right, left = zeros(layer.rightward), zeros(layer.leftward)
            ahead, back = [], []
            for vector in x:
                right = one_step(layer.rightward, vector, right)
                ahead.append(right[0])
            for vector in reversed(x) if backwards else x:
                left = one_step(layer.leftward, vector, left)
                back.append(left[0])
            x = [torch.cat(pair) for pair in zip(ahead, back[::-1] if backwards else back, strict=True)]
        return torch.stack(x)

    torch.testing.assert_close(encoder(ids)[0], read(backwards=True), atol=1e-5, rtol=1e-5)
    assert not torch.allclose(encoder(ids)[0], read(backwards=False), atol=1e-2)


# ---- the decoders, token by token ----


def looked(query: Tensor, memory: Tensor, score: Callable[[Tensor, Tensor], Any]) -> Any:
    """c = Σ_j α_j h_j with α = softmax of the scores, one memory vector at a time."""
    scores = torch.stack([score(query, vector) for vector in memory])
    alpha = torch.exp(scores) / torch.exp(scores).sum()
    return sum(share * vector for share, vector in zip(alpha, memory, strict=True))


def first_states(decoder: Any, memory: Tensor) -> list[tuple[Tensor, ...]]:
    """tanh(W[h_1; h_m] + b), cut into layers and, for an LSTM, into state and cell."""
    every = torch.tanh(decoder.first.weight @ torch.cat((memory[0], memory[-1])) + decoder.first.bias)
    pieces = list(every.split(decoder.layers[0].size))
    parts = len(zeros(decoder.layers[0]))
    return [tuple(pieces[number : number + parts]) for number in range(0, len(pieces), parts)]


def through_layers(decoder: Any, x: Tensor, states: list[tuple[Tensor, ...]]) -> list[tuple[Tensor, ...]]:
    new = []
    for layer, state in zip(decoder.layers, states, strict=True):
        new.append(one_step(layer, x, state))
        x = new[-1][0]
    return new


def bahdanau_loop(decoder: Any, ids: list[int], memory: Tensor, *, wrong: str = "") -> Tensor:
    """Bahdanau, Cho and Bengio 2015, appendix A: e_ij = v·tanh(W s_{i−1} + U h_j), s_i = f(s_{i−1}, [y_{i−1}; c_i]),
    t_i = max of each two of U_o s_i + V_o y_{i−1} + C_o c_i."""
    part = decoder.alignment
    W, U, v = part.attention.query.weight, part.attention.key.weight, part.attention.direction

    def score(s: Tensor, h: Tensor) -> Any:
        return v @ torch.tanh(W @ s + U @ h)

    states, outputs = first_states(decoder, memory), []
    for token in ids:
        y = decoder.embedding.tokens.weight[token] * math.sqrt(8)
        c = looked(states[-1][0], memory, score)
        new = through_layers(decoder, torch.cat((y, c)), states)
        if wrong == "asks after the step":
            c = looked(new[-1][0], memory, score)
            new = through_layers(decoder, torch.cat((y, c)), states)
        states = new
        t = part.map.weight @ torch.cat((states[-1][0], y, c)) + part.map.bias
        if wrong == "reads out the state alone":
            t = part.map.weight @ torch.cat((states[-1][0], 0 * y, 0 * c)) + part.map.bias
        if part.readout == "tanh":
            outputs.append(torch.tanh(t))
        else:
            outputs.append(torch.stack([max(t[2 * i], t[2 * i + 1]) for i in range(len(t) // 2)]))
    return torch.stack(outputs)


def luong_loop(decoder: Any, ids: list[int], memory: Tensor, *, wrong: str = "") -> Tensor:
    """Luong, Pham and Manning 2015: h̃_t = tanh(W_c[c_t; h_t]), scores of section 3.1, input feeding of section 3.3."""
    part = decoder.alignment

    def score(s: Tensor, h: Tensor) -> Any:
        if part.attention.score == "dot":
            return s @ h
        if part.attention.score == "general":
            return s @ (part.attention.key.weight @ h)
        both = torch.cat((part.attention.query.weight, part.attention.key.weight), dim=1)
        return part.attention.direction @ torch.tanh(both @ torch.cat((s, h)))

    states, outputs = first_states(decoder, memory), []
    fed = torch.zeros(8)
    for token in ids:
        y = decoder.embedding.tokens.weight[token] * math.sqrt(8)
        x = torch.cat((y, fed)) if part.feeds == "output" else y
        new = through_layers(decoder, x, states)
        asks = states[-1][0] if wrong == "asks before the step" else new[-1][0]
        states = new
        seen = looked(asks, memory, score)
        outputs.append(torch.tanh(part.map.weight @ torch.cat((seen, states[-1][0]))))
        if wrong != "no input feeding":
            fed = outputs[-1]
    return torch.stack(outputs)


def decoder_with(attention: str, *more: str) -> Any:
    given = ["model.family=recurrent", "model.layers=2", f"model.decoder.attention={{{attention}}}", *SMALL]
    return large(build(read_recipe(None, *given, *more))).decoder


IDS = [1, 7, 4, 9, 4]


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("readout", ["maxout", "tanh"])
@torch.no_grad()
def test_L1_3_bahdanaus_decoder_is_its_loop(cell: str, readout: str) -> None:
    """L1.3: the state before the step asks, the context enters it, and the readout sees state, token and context."""
    decoder = decoder_with(f'kind="bahdanau", size=5, readout="{readout}"', f"model.cell={cell}")
    memory = torch.randn(1, 6, 16)
    out = decoder(torch.tensor([IDS]), memory=Memory(memory, None))[0]
    torch.testing.assert_close(out, bahdanau_loop(decoder, IDS, memory[0]), atol=1e-5, rtol=1e-5)
    for wrong in ("asks after the step", "reads out the state alone"):
        assert not torch.allclose(out, bahdanau_loop(decoder, IDS, memory[0], wrong=wrong), atol=1e-3), wrong


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("score", ["dot", "general", "concat"])
@pytest.mark.parametrize("feeding", ["true", "false"])
@torch.no_grad()
def test_L1_3_luongs_decoder_is_its_loop(cell: str, score: str, feeding: str) -> None:
    """L1.3: the state after the step asks, and what it made of the answer enters the next one."""
    sizes = [f"model.cell={cell}", "model.encoder.bidirectional=false"] if score == "dot" else [f"model.cell={cell}"]
    decoder = decoder_with(f'kind="luong", score="{score}", input_feeding={feeding}', *sizes)
    memory = torch.randn(1, 6, 8 if score == "dot" else 16)
    out = decoder(torch.tensor([IDS]), memory=Memory(memory, None))[0]
    torch.testing.assert_close(out, luong_loop(decoder, IDS, memory[0]), atol=1e-5, rtol=1e-5)
    wrongs = ["asks before the step"] + ["no input feeding"] * (feeding == "true")
    for wrong in wrongs:
        assert not torch.allclose(out, luong_loop(decoder, IDS, memory[0], wrong=wrong), atol=1e-3), wrong


@torch.no_grad()
def test_without_attention_the_first_state_is_all() -> None:
    """The decoder is a plain recurrent net from tanh(W[h_1; h_m]); vectors between them do not matter."""
    decoder = decoder_with('kind="none"')
    memory = torch.randn(1, 6, 16)
    out = decoder(torch.tensor([IDS]), memory=Memory(memory, None))[0]
    states, expected = first_states(decoder, memory[0]), []
    for token in IDS:
        states = through_layers(decoder, decoder.embedding.tokens.weight[token] * math.sqrt(8), states)
        expected.append(states[-1][0])
    torch.testing.assert_close(out, torch.stack(expected), atol=1e-5, rtol=1e-5)
    memory[:, 2:4] += 1
    assert torch.equal(decoder(torch.tensor([IDS]), memory=Memory(memory, None))[0], out)
    memory[:, -1] += 1
    assert not torch.allclose(decoder(torch.tensor([IDS]), memory=Memory(memory, None))[0], out, atol=1e-2)


@torch.no_grad()
def test_attention_can_be_watched_and_hard() -> None:
    """Its weights pass a place for hooks, one row a step; a hard choice is one-hot."""
    for choice in ("soft", "hard"):
        decoder = decoder_with(f'kind="bahdanau", choice="{choice}"')
        watched: list[Tensor] = []
        decoder.alignment.attention.weights.register_forward_hook(lambda _m, _i, out, seen=watched: seen.append(out))
        decoder(torch.tensor([IDS]), memory=Memory(torch.randn(1, 6, 16), None))
        assert [tuple(row.shape) for row in watched] == [(1, 1, 1, 6)] * len(IDS)
        rows = torch.cat(watched)
        torch.testing.assert_close(rows.sum(-1), torch.ones(len(IDS), 1, 1))
        assert bool(((rows == 0) | (rows == 1)).all()) == (choice == "hard")


def test_dropout_stands_where_the_recipe_puts_it() -> None:
    """Each place alone makes training outputs random; all at zero, training equals evaluation."""
    ids = torch.randint(4, 20, (2, 6))

    def is_random(kind: str, **rates: float) -> bool:
        places = {"residual": 0.0, "embedding": 0.0} | rates
        settings = [f"model.decoder.dropout.{place}={rate}" for place, rate in places.items()]
        settings += [f"model.encoder.dropout.{place}={places[place]}" for place in ("residual", "embedding")]
        recipe = read_recipe(None, "model.family=recurrent", f"model.attention.kind={kind}", *SMALL, *settings)
        model = build(recipe, seed=1)
        return not torch.equal(model(ids, ids), model(ids, ids))

    for kind in ("bahdanau", "luong"):
        assert not is_random(kind)
        assert is_random(kind, residual=0.5)
        assert is_random(kind, embedding=0.5)
        assert is_random(kind, attention=0.5)


@torch.no_grad()
def test_how_weights_start() -> None:
    """Every gate's map of the state is orthogonal, so that nothing grows or fades; an LSTM keeps what it has."""
    model: Any = build(read_recipe(None, "model.family=recurrent", "model.cell=lstm", *SMALL), seed=1)
    layer = model.encoder.layers[0].rightward
    for gate in layer.carry.weight.split(8):
        torch.testing.assert_close(gate @ gate.T, torch.eye(8), atol=1e-5, rtol=1e-5)
    keep = layer.input.bias + layer.carry.bias
    assert (keep[8:16] == 1).all()
    assert (keep[:8] == 0).all()
    normal = ["model.init.kind=normal", "model.init.std=0.05", "model.width=64"]
    drawn: Any = build(read_recipe(None, "model.family=recurrent", *SMALL, *normal), seed=1)
    assert float(drawn.encoder.layers[0].leftward.carry.weight.std()) == pytest.approx(0.05, rel=0.1)
    assert isinstance(drawn.decoder.first, nn.Linear)
