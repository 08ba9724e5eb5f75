"""L1.2 and L1.3: what a recurrent net forgets over the distance, and seq2seq with attention."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.blocks import Memory
from clearhead.drawing.figure import Lines, Series
from clearhead.lectures.demonstrations.broken import broken_block
from clearhead.lectures.demonstrations.compare import ROUNDING, far, gap
from clearhead.lectures.evidence import Evidence, Measure, Wrong
from clearhead.models import build, influence
from clearhead.recipe import read_recipe

DISTANCES = (1, 2, 5, 10, 20, 40)


def forgetting() -> Evidence:
    """L1.2: ‖∂h_T/∂x_t‖ over the distance, and copying through one vector against copying with attention."""
    ids = torch.randint(4, 40, (1, 41))
    norms = {"attention": influence(_encoder(), ids)}
    for cell in ("elman", "gru", "lstm"):
        norms[cell] = influence(_encoder(cell), ids)
    open_gate = _encoder("gru")
    with torch.no_grad():  # the wrong variant: a net whose gate is held open does not forget
        layer: Any = open_gate.get_submodule("layers.0.rightward")
        layer.input.bias[layer.size : 2 * layer.size] = 6.0
    kept = {name: float(norm[-41] / norm[-2]) for name, norm in norms.items()}
    held = influence(open_gate, ids)
    copied = {"attention": _copies("input_feeding=false"), "none": _copies("kind=none")}
    what = "‖∂h_T/∂x_t‖ at distance 40 against distance 1"
    right = "letters of a line of 12 copied right after 150 steps"
    return Evidence(
        measures=(
            *(Measure(f"{what}: {cell}", 0.01, kept[cell], relation="≤") for cell in ("elman", "gru", "lstm")),
            Measure(f"{what}: attention", 0.1, kept["attention"], relation="≥"),
            Measure(f"{right}: recurrent nets with attention", 0.9, copied["attention"], relation="≥"),
            Measure(f"{right}: through one vector", 0.6, copied["none"], relation="≤"),
        ),
        wrong=(
            Wrong("a net that is kept from forgetting", Measure(what, 0.01, float(held[-41] / held[-2]), relation="≤")),
            Wrong("one vector taken for attention", Measure(right, 0.9, copied["none"], relation="≥")),
        ),
        figures=(
            Lines(
                title="How much the last vector depends on a token, over the distance (distance 1 is 1)",
                alt="In the three recurrent nets the influence falls by orders of magnitude, in attention it does not.",
                x_label="distance in tokens",
                y_label="‖∂h_T/∂x_t‖",
                log_y=True,
                series=tuple(
                    Series(name, tuple(map(float, DISTANCES)), tuple(float(norm[-1 - d] / norm[-2]) for d in DISTANCES))
                    for name, norm in norms.items()
                ),
            ),
        ),
        notes=("The nets have random weights; training can teach a gate to stay open, which is what is hard.",),
    )


def _encoder(cell: str | None = None) -> torch.nn.Module:
    settings = ["model.family=encoder", "model.width=32", "model.layers=1", "model.vocabulary.source=40"]
    if cell is not None:
        settings += ["model.encoder.kind=recurrent", f"model.encoder.cell={cell}", "model.encoder.bidirectional=false"]
    return build(read_recipe(None, *settings), seed=1).eval().get_submodule("encoder")


def _copies(attention: str) -> float:
    """How many letters of lines of 12 are right after a little training, with this setting of Luong's attention."""
    sizes = ["model.vocabulary.source=14", "model.vocabulary.target=14", "model.width=40"]
    rest = ["model.dropout.residual=0.0", "model.dropout.embedding=0.0", f"model.decoder.attention.{attention}"]
    model = build(read_recipe(None, "model.family=recurrent", *sizes, *rest), seed=1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(1)

    def run(lines: int) -> tuple[Tensor, Tensor]:
        source = torch.randint(4, 14, (lines, 12), generator=generator)
        return model(source, F.pad(source[:, :-1], (1, 0), value=1)), source

    for _ in range(150):
        logits, labels = run(32)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    with torch.no_grad():
        logits, labels = run(100)
    return float((logits.argmax(-1) == labels).float().mean())


def seq2seq_with_attention() -> Evidence:
    """L1.3: Bahdanau's and Luong's decoders against loops, and h from a recurrent net or from a Transformer."""
    ids, memory = [1, 7, 4, 9], torch.randn(6, 16)
    loops = {"bahdanau": _bahdanau, "luong": _luong}
    decoders: dict[str, Any] = {kind: _recurrent(kind) for kind in loops}
    padded = Memory(torch.cat((memory, torch.randn(2, 16)))[None], torch.arange(8)[None] < 6)

    @torch.no_grad()
    def against_its_loop(kind: str, early: bool) -> Measure:
        """All steps in one call, then token by token with a cache, over a memory without and with padding."""
        decoder, expected = decoders[kind], loops[kind](decoders[kind], ids, memory, early=early)
        worst = 0.0
        for pool in (Memory(memory[None], None), padded):
            cache = decoder.new_cache()
            parts = [decoder(torch.tensor([[token]]), memory=pool, cache=cache)[0] for token in ids]
            both = decoder(torch.tensor([ids]), memory=pool)[0], torch.cat(parts)
            worst = max(worst, *(gap(out, expected) for out in both))
        what = f"{kind} against its loop, also padded and with a cache: max|Δ|"
        return Measure(what, 0.0, worst, tolerance=ROUNDING)

    def right(kind: str) -> Measure:
        return against_its_loop(kind, kind == "bahdanau")

    swapped = {name: _logits(*settings) for name, settings in _PAIRS.items()}
    attention = "clearhead.blocks.alignment.StateAttention"
    return Evidence(
        measures=(
            *map(right, loops),
            *(
                far(f"{name}: outputs when the first source token changes", *pair, 1e-4)
                for name, pair in swapped.items()
            ),
        ),
        wrong=(
            broken_block(
                "bahdanau that averages the memory instead of attending",
                f"{attention}.forward",
                lambda _: lambda self, states, pool: pool.values.mean(1, keepdim=True).expand(-1, states.shape[1], -1),
                lambda: right("bahdanau"),
            ),
            broken_block(
                "luong that attends to padding",
                f"{attention}.prepare",
                lambda right: lambda self, memory: right(self, Memory(memory.states, None)),
                lambda: right("luong"),
            ),
            Wrong("bahdanau that asks after its step", against_its_loop("bahdanau", early=False)),
            Wrong("luong that asks before its step", against_its_loop("luong", early=True)),
        ),
        notes=("Bahdanau's state asks before each step, Luong's after it; each is the wrong variant of the other.",),
    )


_PAIRS = {
    "RNN reads, RNN writes": ("model.family=recurrent",),
    "Transformer reads, RNN writes": ("model.family=recurrent", "model.encoder.kind=transformer"),
    "Transformer reads, Transformer writes": ("model.family=seq2seq",),
}


def _logits(*settings: str) -> tuple[Tensor, Tensor]:
    """Outputs for two sources that differ in their first token."""
    sizes = ["model.vocabulary.source=20", "model.vocabulary.target=20", "model.width=16", "model.layers=1"]
    model = build(read_recipe(None, *settings, *sizes), seed=1).eval()
    source, target = torch.tensor([[5, 6, 7, 8]]), torch.tensor([[1, 9, 10]])
    other = source.clone()
    other[0, 0] = 11
    with torch.no_grad():
        return model(source, target), model(other, target)


def _recurrent(kind: str) -> torch.nn.Module:
    """A decoder with this attention and weights large enough for every part to matter."""
    sizes = ["model.vocabulary.source=20", "model.vocabulary.target=20", "model.width=8", "model.layers=1"]
    settings = [f"model.decoder.attention.kind={kind}", "model.cell=gru"]
    model = build(read_recipe(None, "model.family=recurrent", *sizes, *settings), seed=1).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.3)
    return model.get_submodule("decoder")


def _look(query: Tensor, memory: Tensor, score: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """c = Σ_j α_j h_j, one vector of the memory at a time."""
    alpha = torch.stack([score(query, vector) for vector in memory]).softmax(0)
    return sum((share * vector for share, vector in zip(alpha, memory, strict=True)), torch.zeros_like(memory[0]))


def _gru(layer: Any, x: Tensor, state: Tensor) -> Tensor:
    """One step of a GRU, gate by gate."""
    given = (layer.input.weight[:, : len(x)] @ x + layer.input.bias).chunk(3)
    carried = (layer.carry.weight @ state + layer.carry.bias).chunk(3)
    reset, update = torch.sigmoid(given[0] + carried[0]), torch.sigmoid(given[1] + carried[1])
    new = torch.tanh(given[2] + reset * carried[2])
    return (1 - update) * new + update * state


def _bahdanau(decoder: Any, ids: list[int], memory: Tensor, *, early: bool) -> Tensor:
    """s_i = f(s_{i−1}, [y_{i−1}; c_i]), where s_{i−1} has asked for c_i, or (not early) the state after the step."""
    part = decoder.alignment

    def score(s: Tensor, h: Tensor) -> Tensor:
        met: Tensor = part.attention.direction @ torch.tanh(
            part.attention.query.weight @ s + part.attention.key.weight @ h
        )
        return met

    state, outputs = _first(decoder, memory), []
    for token in ids:
        y = decoder.embedding.tokens.weight[token] * math.sqrt(8)
        seen = _look(state, memory, score)
        after = _gru(decoder.layers[0], torch.cat((y, seen)), state)
        if not early:
            seen = _look(after, memory, score)
            after = _gru(decoder.layers[0], torch.cat((y, seen)), state)
        state = after
        t = part.map.weight @ torch.cat((state, y, seen)) + part.map.bias
        outputs.append(torch.tanh(t) if part.readout == "tanh" else t.view(-1, 2).amax(1))
    return torch.stack(outputs)


def _luong(decoder: Any, ids: list[int], memory: Tensor, *, early: bool) -> Tensor:
    """h̃_t = tanh(W_c[c_t; h_t]), where h_t has asked for c_t, or (early) the state before the step."""
    part = decoder.alignment

    def score(s: Tensor, h: Tensor) -> Tensor:
        met: Tensor = s @ (part.attention.key.weight @ h)
        return met

    state, outputs, fed = _first(decoder, memory), [], torch.zeros(8)
    for token in ids:
        y = decoder.embedding.tokens.weight[token] * math.sqrt(8)
        after = _gru(decoder.layers[0], torch.cat((y, fed)) if part.feeds == "output" else y, state)
        seen = _look(state if early else after, memory, score)
        state = after
        fed = torch.tanh(part.map.weight @ torch.cat((seen, state)))
        outputs.append(fed)
    return torch.stack(outputs)


def _first(decoder: Any, memory: Tensor) -> Tensor:
    """The decoder's first state: tanh(W[h_1; h_m] + b)."""
    first: Tensor = torch.tanh(decoder.first.weight @ torch.cat((memory[0], memory[-1])) + decoder.first.bias)
    return first
