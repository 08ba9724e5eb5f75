"""L2.13 and L2.14: many heads at the price of one, and Linformer: its work, where it pays, and what it gives up."""

from functools import partial
from itertools import pairwise
from typing import Any

import sympy
import torch
from torch import Tensor

from clearhead.attention import AttentionContext, KeyValues, LinformerAttention, MultiHeadAttention
from clearhead.costing import letter, multihead_work
from clearhead.costing.tracing import attention_path, counted_macs
from clearhead.drawing.figure import Lines, Series
from clearhead.errors import RecipeError
from clearhead.lectures.demonstrations.broken import broken_block
from clearhead.lectures.demonstrations.compare import alike, formula_gap, written
from clearhead.lectures.demonstrations.crossings import EXPLICIT, scores_twice
from clearhead.lectures.demonstrations.pytorch import randomise
from clearhead.lectures.evidence import Evidence, EvidenceTable, Measure
from clearhead.recipe import read_recipe

n, d, k = letter("n"), letter("d"), letter("k")


def heads_cost_the_same() -> Evidence:
    """L2.13: with heads of size d/h the products cost the same for every h; the softmax costs h times as much."""
    h = letter("h")
    work = multihead_work(n, n, h=h, d_q=d, d_v=d, head_q=d / h, head_v=d / h, d_o=d)
    width, length, counts = 48, 20, (1, 2, 4, 8)
    x = torch.randn(1, length, width)

    def run(heads: int) -> tuple[int, int]:
        """Multiplications, and weights to be normalised."""
        module = MultiHeadAttention(width=width, heads=heads, bias=False)
        module.path = "explicit"
        weights: list[int] = []
        module.weights.register_forward_hook(lambda _module, _inputs, out: weights.append(out.numel()))
        return counted_macs(lambda: module(x)), weights[0]

    seen = {heads: run(heads) for heads in counts}

    def products(heads: int) -> Measure:
        expected = int(work.total.subs({n: length, d: width, h: heads}))
        return Measure(f"multiplications with {heads} heads, formula and counted", expected, run(heads)[0])

    def against_one() -> Measure:
        return Measure("multiplications with 8 heads against 1", 1.0, run(8)[0] / run(1)[0])

    def softmax() -> Measure:
        return Measure("weights to be normalised with 8 heads against 1", 8.0, run(8)[1] / run(1)[1])

    return Evidence(
        measures=(
            formula_gap(
                "work of h heads of size d/h: 4nd² + 2n²d", 4 * n * d**2 + 2 * n**2 * d, sympy.expand(work.total)
            ),
            *(products(heads) for heads in counts),
            against_one(),
            softmax(),
        ),
        wrong=(
            broken_block(
                "heads of the full size d",
                "clearhead.attention.multihead.MultiHeadAttention.__init__",
                lambda right: (
                    lambda self, *, width, **more: right(self, width=width, query_size=width, value_size=width, **more)
                ),
                against_one,
            ),
            broken_block("scores that are computed twice", EXPLICIT, scores_twice, partial(products, 4)),
            broken_block(
                "one set of weights for all heads",
                "clearhead.attention.choice.choose",
                lambda right: lambda scores, *more: right(scores.mean(1, keepdim=True), *more),
                softmax,
            ),
        ),
        tables=(
            EvidenceTable(
                f"n = {length}, d = {width}",
                ("heads", "multiplications", "weights hn²"),
                tuple((heads, *found) for heads, found in seen.items()),
            ),
        ),
    )


WIDTH, HEADS, LENGTH, RANK = 16, 2, 12, 16


def linformer() -> Evidence:
    """L2.14: with k = n and E = I it is full attention; its work; from where it pays; padding, cache, and quality."""
    full = MultiHeadAttention(width=WIDTH, heads=HEADS)
    randomise(full)
    lin = LinformerAttention(width=WIDTH, heads=HEADS, rank=LENGTH, length=LENGTH)
    lin.load_state_dict(full.state_dict(), strict=False)
    x = torch.randn(2, LENGTH, WIDTH)
    with torch.no_grad():
        for part in (lin.shrink_keys, lin.shrink_values):
            part.weight.copy_(torch.eye(LENGTH)[None])

    def exact(path: str) -> Measure:
        attention_path(lin, path)
        with torch.no_grad():
            return alike(f"k = n, E = F = I, against full attention, path {path}", lin(x), full(x))

    mixed = LinformerAttention(width=WIDTH, heads=HEADS, rank=4, length=LENGTH)
    randomise(mixed)
    valid = torch.arange(LENGTH) < LENGTH - 3

    def padded() -> Measure:
        short = x[:, : LENGTH - 3]
        with torch.no_grad():
            seen = mixed(x, context=AttentionContext(valid=valid.expand(2, -1)))[:, : LENGTH - 3]
            return alike("three tokens of padding, against the line without them", seen, mixed(short))

    def remembered() -> Measure:
        """Cross-attention: the slots are filled at the first step, and kept."""
        cache = KeyValues()
        with torch.no_grad():
            steps = [mixed(x[:, place : place + 1], x, cache=cache) for place in range(LENGTH)]
            return alike("cross-attention step by step with a cache", torch.cat(steps, dim=1), mixed(x, x))

    def cheaper() -> Measure:
        signs = []
        for length in (2 * RANK - 1, 2 * RANK, 2 * RANK + 1):
            difference = _macs("linformer", length) - _macs("full", length)
            signs.append("0" if difference == 0 else "+" if difference > 0 else "−")
        return Measure(f"work beside full attention at n = 2k − 1, 2k, 2k + 1, k = {RANK}", "+, 0, −", ", ".join(signs))

    def work(name: str, length: int) -> Measure:
        form = {"full": 4 * n * d**2 + 2 * n**2 * d, "linformer": 4 * n * d**2 + 4 * n * k * d}[name]
        expected = int(form.subs({n: length, d: WIDTH, k: RANK}))
        return Measure(f"{name}, n = {length}: {written(form)}, counted", expected, _macs(name, length))

    quality = _quality(full)
    lengths = (16, 32, 64, 128, 256)
    shrink = "clearhead.attention.linformer.LengthMap.forward"
    return Evidence(
        measures=(
            exact("explicit"),
            exact("fused"),
            padded(),
            remembered(),
            work("full", 64),
            work("linformer", 64),
            work("linformer", 128),
            cheaper(),
            Measure("Linformer in a decoder, where a slot would mix in the future", "is refused", _in_a_decoder()),
            *_falls(quality),
        ),
        wrong=(
            broken_block(
                "E puts keys and values in another order",
                "clearhead.attention.linformer.LinformerAttention.candidates",
                lambda right: lambda *given: (right(*given)[0].flip(2), right(*given)[1]),
                partial(exact, "fused"),
            ),
            broken_block(
                "padding that is mixed into the slots",
                shrink,
                lambda right: lambda self, heads, context: right(self, heads, AttentionContext()),
                padded,
            ),
            broken_block(
                "a product over all n keys as well",
                shrink,
                lambda right: lambda self, heads, context: right(self, heads, context) + 0 * (heads @ heads.mT).sum(),
                cheaper,
            ),
        ),
        tables=(
            EvidenceTable(
                f"What is left of full attention, n = {LENGTH}: E and F learnt on random tokens, measured on others",
                ("k", "mean squared error over the variance of full attention"),
                tuple(quality.items()),
            ),
        ),
        figures=(
            Lines(
                title=f"Multiplications over the length, d = {WIDTH}, k = {RANK}: they cross at n = 2k",
                alt="Full attention bends upwards; Linformer is a straight line, the same at n = 32, cheaper beyond.",
                x_label="tokens n",
                y_label="multiplications",
                log_x=True,
                log_y=True,
                series=tuple(
                    Series(label, tuple(map(float, lengths)), tuple(float(_macs(name, one)) for one in lengths))
                    for name, label in (("full", "full: 4nd² + 2n²d"), ("linformer", "Linformer: 4nd² + 4nkd"))
                ),
            ),
            Lines(
                title=f"What k < n costs: the error of Linformer beside full attention, n = {LENGTH}",
                alt="The error falls as k grows, to nearly nothing at k = n.",
                x_label="slots k",
                y_label="error over variance",
                series=(Series("E and F learnt", tuple(map(float, quality)), tuple(quality.values())),),
            ),
        ),
    )


def _in_a_decoder() -> str:
    try:
        read_recipe("tiny", "model.decoder.attention.kind=linformer")
    except RecipeError:
        return "is refused"
    return "is built"


def _macs(name: str, length: int) -> int:
    module = (
        MultiHeadAttention(width=WIDTH, heads=HEADS, bias=False)
        if name == "full"
        else LinformerAttention(width=WIDTH, heads=HEADS, rank=RANK, length=length, bias=False)
    )
    module.path = "explicit"
    x = torch.randn(1, length, WIDTH)
    with torch.no_grad():
        return counted_macs(lambda: module(x))


def _quality(full: MultiHeadAttention) -> dict[int, float]:
    """For each k: E and F fitted to the outputs of full attention, its other weights the same; the error that stays.

    The trainer has no objective for this, as it trains whole models on examples: what is learnt here is how well two
    matrices of one block can stand in for another block, not a task.
    """
    generator = torch.Generator().manual_seed(4)
    drawn = torch.randn(2, 64, LENGTH, WIDTH, generator=generator)
    with torch.no_grad():
        learn, judge = (full(part) for part in drawn)
    found = {}
    for slots in (1, 3, 6, LENGTH):
        module = LinformerAttention(width=WIDTH, heads=HEADS, rank=slots, length=LENGTH)
        module.load_state_dict(full.state_dict(), strict=False)
        maps: list[Any] = [module.shrink_keys.weight, module.shrink_values.weight]
        with torch.no_grad():
            for weight in maps:
                weight.copy_(_pooled(slots) + 0.1 * torch.randn(weight.shape, generator=generator))
        optimizer = torch.optim.Adam(maps, lr=0.05)
        with torch.enable_grad():
            for _ in range(60):
                loss = (module(drawn[0]) - learn).square().mean()
                optimizer.zero_grad()
                torch.autograd.backward(loss, inputs=maps)
                optimizer.step()
        with torch.no_grad():
            found[slots] = float((module(drawn[1]) - judge).square().mean() / judge.var())
    return found


def _pooled(slots: int) -> Tensor:
    """Each slot the mean of its share of the positions, which for k = n is the identity."""
    share = LENGTH // slots
    return torch.eye(slots).repeat_interleave(share, dim=1)[None] / share


def _falls(quality: dict[int, float]) -> list[Measure]:
    """The error falls with every larger k, and is next to nothing at k = n."""
    slots = list(quality)
    return [
        *(
            Measure(f"error at k = {more}, below that at k = {few}", quality[few], quality[more], relation="≤")
            for few, more in pairwise(slots)
        ),
        Measure(f"error at k = n = {LENGTH}, over that at k = 1", 0.05, quality[LENGTH] / quality[1], relation="≤"),
    ]
