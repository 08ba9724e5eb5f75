"""L1.2 and L1.3: what a recurrent net forgets over the distance, and seq2seq with attention."""

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.blocks import Memory
from clearhead.data import EncodedPairs
from clearhead.decoding import ModelStepper, Rules, greedy
from clearhead.drawing.figure import Lines, Series
from clearhead.lectures.demonstrations.broken import broken_block
from clearhead.lectures.demonstrations.compare import ROUNDING, far, gap
from clearhead.lectures.demonstrations.learning import EVEN_RATE, learn, side
from clearhead.lectures.demonstrations.toy import BOS, EOS, FIRST
from clearhead.lectures.evidence import Evidence, Measure
from clearhead.models import Seq2Seq, build, influence
from clearhead.recipe import read_recipe
from clearhead.training import objective_of

DISTANCES = (1, 2, 5, 10, 20, 40)
CELLS = ("elman", "gru", "lstm")
LENGTH, STEPS = 10, 120
ATTENTION = "clearhead.blocks.alignment.StateAttention.forward"


def forgetting() -> Evidence:
    """L1.2: ‖∂h_T/∂x_t‖ over the distance, and copying through one vector against copying with attention."""
    ids = torch.randint(4, 40, (1, 41))
    norms = {"attention": influence(_encoder(), ids)}
    for cell in CELLS:
        norms[cell] = influence(_encoder(cell), ids)

    def fades(cell: str) -> Measure:
        norm = influence(_encoder(cell), ids)
        return Measure(f"{left}: {cell}", 0.01, float(norm[-41] / norm[-2]), relation="≤")

    def copies() -> Measure:
        what = f"{right}: recurrent nets with attention"
        return Measure(what, 0.75, _copies("input_feeding=false"), relation="≥")

    left = "‖∂h_T/∂x_t‖ at distance 40 against distance 1"
    right = f"letters of lines of {LENGTH} copied right after {STEPS} steps of the trainer"
    kept = float(norms["attention"][-41] / norms["attention"][-2])
    return Evidence(
        measures=(
            *map(fades, CELLS),
            Measure(f"{left}: attention", 0.1, kept, relation="≥"),
            copies(),
            Measure(f"{right}: through one vector", 0.5, _copies("kind=none"), relation="≤"),
        ),
        wrong=(
            broken_block(
                "a recurrent layer whose gate is held open, so that it does not forget",
                "clearhead.blocks.recurrence.Recurrence.forward",
                _held_open,
                lambda: fades("gru"),
            ),
            broken_block(
                "attention that gives the mean of the memory: one vector again", ATTENTION, mean_of_the_memory, copies
            ),
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


def _held_open(right: Callable[..., Any]) -> Callable[..., Any]:
    """Break ``Recurrence.forward``: the update gate of a GRU is far on the side that keeps the state."""

    def forward(self: Any, *given: Any) -> Any:
        held = copy.deepcopy(self)
        with torch.no_grad():
            held.input.bias[held.size : 2 * held.size] = 6.0
        return right(held, *given)

    return forward


def mean_of_the_memory(_right: Any) -> Any:
    """Break ``StateAttention.forward``: every state gets the mean of all vectors."""
    return lambda self, states, pool: pool.values.mean(1, keepdim=True).expand(-1, states.shape[1], -1)


def _encoder(cell: str | None = None) -> torch.nn.Module:
    settings = ["model.family=encoder", "model.width=32", "model.layers=1", "model.vocabulary.source=40"]
    if cell is not None:
        settings += ["model.encoder.kind=recurrent", f"model.encoder.cell={cell}", "model.encoder.bidirectional=false"]
    return build(read_recipe(None, *settings), seed=1).eval().get_submodule("encoder")


def _copies(attention: str) -> float:
    """How many letters are right after a little training, with this setting of Luong's attention."""
    letters, lines, judged = 10, 48, 50
    sizes = ["model.width=32", *(f"model.vocabulary.{end}={FIRST + letters}" for end in ("source", "target"))]
    rate = ["training.optimizer.rate=0.01", f"training.batch_tokens={lines * (LENGTH + 1)}", f"training.steps={STEPS}"]
    kind = ["model.family=recurrent", f"model.decoder.attention.{attention}", f"training.save_every={STEPS}"]
    recipe = read_recipe(None, *kind, *sizes, *EVEN_RATE, *rate)
    model, generator = build(recipe, seed=1), torch.Generator().manual_seed(3)
    assert isinstance(model, Seq2Seq)
    learnt, others = (
        torch.randint(FIRST, FIRST + letters, (count, LENGTH), generator=generator) for count in (lines * STEPS, judged)
    )
    learn(model, EncodedPairs(side(learnt), side(learnt), too_long=0), objective_of(recipe), recipe)
    with torch.inference_mode():
        written = greedy(
            ModelStepper.reading(model, F.pad(others, (0, 1), value=EOS), None),
            Rules(longest=[LENGTH + 1] * judged),
            first=[BOS] * judged,
            eos=EOS,
            scored=False,
        )
    right = 0
    for line, row in zip(written, others.tolist(), strict=True):
        right += sum(mine == true for mine, true in zip(line.tokens, row, strict=False))  # a line may end too early
    return right / others.numel()


def seq2seq_with_attention() -> Evidence:
    """L1.3: Bahdanau's and Luong's decoders against loops, and h from a recurrent net or from a Transformer."""
    ids, memory = [1, 7, 4, 9], torch.randn(6, 16)
    loops = {"bahdanau": _bahdanau, "luong": _luong}
    decoders: dict[str, Any] = {kind: _recurrent(kind) for kind in loops}
    expected = {kind: loops[kind](decoder, ids, memory) for kind, decoder in decoders.items()}
    padded = Memory(torch.cat((memory, torch.randn(2, 16)))[None], torch.arange(8)[None] < 6)

    @torch.no_grad()
    def against_its_loop(kind: str) -> Measure:
        """All steps in one call, then token by token with a cache, over a memory without and with padding."""
        decoder, worst = decoders[kind], 0.0
        for pool in (Memory(memory[None], None), padded):
            cache = decoder.new_cache()
            parts = [decoder(torch.tensor([[token]]), memory=pool, cache=cache)[0] for token in ids]
            both = decoder(torch.tensor([ids]), memory=pool)[0], torch.cat(parts)
            worst = max(worst, *(gap(out, expected[kind]) for out in both))
        what = f"{kind} against its loop, also padded and with a cache: max|Δ|"
        return Measure(what, 0.0, worst, tolerance=ROUNDING)

    swapped = {name: _logits(*settings) for name, settings in _PAIRS.items()}
    return Evidence(
        measures=(
            *map(against_its_loop, loops),
            *(
                far(f"{name}: outputs when the first source token changes", *pair, 1e-4)
                for name, pair in swapped.items()
            ),
        ),
        wrong=(
            broken_block(
                "bahdanau that averages the memory instead of attending",
                ATTENTION,
                mean_of_the_memory,
                lambda: against_its_loop("bahdanau"),
            ),
            broken_block(
                "luong that attends to padding",
                "clearhead.blocks.alignment.StateAttention.prepare",
                lambda right: lambda self, memory: right(self, Memory(memory.states, None)),
                lambda: against_its_loop("luong"),
            ),
            broken_block(
                "bahdanau that asks again after its step",
                "clearhead.blocks.alignment.BahdanauAlignment.output",
                lambda right: (
                    lambda self, states, tokens, _contexts, pool: right(
                        self, states, tokens, self.context(states, pool), pool
                    )
                ),
                lambda: against_its_loop("bahdanau"),
            ),
            broken_block(
                "luong that asks before its step",
                "clearhead.blocks.recurrent.RecurrentDecoder._step",
                _asks_before,
                lambda: against_its_loop("luong"),
            ),
        ),
        notes=("Bahdanau's state asks before each step, Luong's after it.",),
    )


def _asks_before(right: Callable[..., Any]) -> Callable[..., Any]:
    """Break a decoder's step: the attention that follows gets the state from which the step began."""

    def step(self: Any, gates: Tensor, states: Any, *rest: Any) -> Any:
        def turned_back(_attention: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
            handle.remove()
            return states[-1][0][:, None], *given[1:]

        handle = self.alignment.attention.register_forward_pre_hook(turned_back)
        return right(self, gates, states, *rest)

    return step


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


def _bahdanau(decoder: Any, ids: list[int], memory: Tensor) -> Tensor:
    """s_i = f(s_{i−1}, [y_{i−1}; c_i]), where s_{i−1} has asked for c_i."""
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
        state = _gru(decoder.layers[0], torch.cat((y, seen)), state)
        t = part.map.weight @ torch.cat((state, y, seen)) + part.map.bias
        outputs.append(torch.tanh(t) if part.readout == "tanh" else t.view(-1, 2).amax(1))
    return torch.stack(outputs)


def _luong(decoder: Any, ids: list[int], memory: Tensor) -> Tensor:
    """h̃_t = tanh(W_c[c_t; h_t]), where h_t has asked for c_t."""
    part = decoder.alignment

    def score(s: Tensor, h: Tensor) -> Tensor:
        met: Tensor = s @ (part.attention.key.weight @ h)
        return met

    state, outputs, fed = _first(decoder, memory), [], torch.zeros(8)
    for token in ids:
        y = decoder.embedding.tokens.weight[token] * math.sqrt(8)
        state = _gru(decoder.layers[0], torch.cat((y, fed)) if part.feeds == "output" else y, state)
        seen = _look(state, memory, score)
        fed = torch.tanh(part.map.weight @ torch.cat((seen, state)))
        outputs.append(fed)
    return torch.stack(outputs)


def _first(decoder: Any, memory: Tensor) -> Tensor:
    """The decoder's first state: tanh(W[h_1; h_m] + b)."""
    first: Tensor = torch.tanh(decoder.first.weight @ torch.cat((memory[0], memory[-1])) + decoder.first.bias)
    return first
