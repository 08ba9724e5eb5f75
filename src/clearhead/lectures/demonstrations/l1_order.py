"""L1.10 and L1.11: no order inside, all tokens at once, and the memory that this takes."""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.costing import cost
from clearhead.costing.tracing import attention_path, saved_bytes, watch
from clearhead.drawing.figure import Lines, Series
from clearhead.lectures.demonstrations.broken import broken_block
from clearhead.lectures.demonstrations.compare import ROUNDING, far, gap
from clearhead.lectures.evidence import Evidence, EvidenceTable, Measure
from clearhead.models import build
from clearhead.recipe import read_recipe

LENGTHS = (8, 16, 32, 64)


def order_must_be_added() -> Evidence:
    """L1.10: without positions a Transformer sees a set; with them an order; its span grows with log n, not with n."""
    ids, order = torch.tensor([[5, 6, 7, 8, 9, 10], [11, 12, 13, 14, 0, 0]]), torch.tensor([3, 0, 5, 1, 4, 2])
    models = {kind: _encoder(f"model.position.kind={kind}") for kind in ("none", "sinusoidal")}
    recurrent = _encoder("model.encoder.kind=recurrent", "model.encoder.cell=gru", "model.encoder.bidirectional=false")
    name = "model(permuted tokens) against the permuted model(tokens), with padding"

    @torch.no_grad()
    def pair(model: nn.Module) -> tuple[Tensor, Tensor]:
        there = ids[:, order] != 0
        return model(ids[:, order])[there], model(ids)[:, order][there]

    def a_set() -> Measure:
        worst = 0.0
        for path in ("explicit", "fused"):
            attention_path(models["none"], path)
            worst = max(worst, gap(*pair(models["none"])))
        return Measure(f"{name}, no positions: max|Δ|", 0.0, worst, tolerance=ROUNDING)

    def an_order() -> Measure:
        return far(f"{name}, sinusoidal positions", *pair(models["sinusoidal"]), 0.01)

    def spans(model: nn.Module) -> list[int]:
        """The longest chain of operations that have to wait for each other, counted while the model runs."""
        attention_path(model, "explicit")
        found = []
        for n in LENGTHS:
            line = torch.randint(4, 40, (1, n))
            with torch.no_grad():
                found.append(watch(partial(model, line), model, []).span)
        return found

    def growth() -> Measure:
        seen = spans(models["sinusoidal"])
        steps = [later - earlier for earlier, later in itertools.pairwise(seen)]
        return Measure(
            f"span from n = {LENGTHS[-2]} to {LENGTHS[-1]} minus from {LENGTHS[0]} to {LENGTHS[1]}",
            0,
            steps[-1] - steps[0],
        )

    parallel, serial = spans(models["sinusoidal"]), spans(recurrent)
    return Evidence(
        measures=(
            a_set(),
            an_order(),
            far(f"{name}, a recurrent net, which has its order built in", *pair(recurrent), 0.01),
            growth(),
            Measure(
                f"span of a recurrent layer at n = {LENGTHS[-1]} against n = {LENGTHS[-2]}",
                1.9,
                serial[-1] / serial[-2],
                relation="≥",
            ),
        ),
        wrong=(
            broken_block(
                "attention that sees the order: later keys weigh less",
                "clearhead.attention.choice.choose",
                lambda right: lambda scores, *rest: right(scores - 0.1 * torch.arange(scores.shape[-1]), *rest),
                a_set,
            ),
            broken_block(
                "positions that are not added",
                "clearhead.positions.absolute.SinusoidalPosition.forward",
                lambda right: lambda *given: torch.zeros_like(right(*given)),
                an_order,
            ),
            broken_block(
                "attention that handles its queries one after the other",
                "clearhead.attention.paths.attend_heads",
                lambda right: partial(_one_after_the_other, right),
                growth,
            ),
            broken_block(
                "attention that carries what it found on to the next token, as a recurrent net does",
                "clearhead.attention.paths.attend_heads",
                lambda right: lambda *given: right(*given).cumsum(2),
                a_set,
            ),
        ),
        tables=(
            EvidenceTable(
                "Operations that have to wait for each other (span), sums as trees",
                ("n", "Transformer encoder, 2 layers", "recurrent encoder (GRU), 2 layers"),
                tuple(zip(LENGTHS, parallel, serial, strict=True)),
            ),
        ),
        figures=(
            Lines(
                title="How many operations have to wait for each other, over the length",
                alt="The span of the recurrent net rises in proportion to n, that of attention with its logarithm.",
                x_label="tokens n",
                y_label="span",
                log_x=True,
                log_y=True,
                series=(
                    Series("Transformer", tuple(map(float, LENGTHS)), tuple(map(float, parallel))),
                    Series("recurrent net", tuple(map(float, LENGTHS)), tuple(map(float, serial))),
                ),
            ),
        ),
        notes=(
            f"With positions the permutation moves the outputs by {gap(*pair(models['sinusoidal'])):.2f}.",
            f"Doubling n adds {parallel[-1] - parallel[-2]} steps to the Transformer and {serial[-1] - serial[-2]} to "
            "the recurrent net.",
        ),
    )


def _encoder(*settings: str) -> nn.Module:
    sizes = ["model.layers=2", "model.width=16", "model.vocabulary.source=40"]
    return build(read_recipe(None, "model.family=encoder", *sizes, *settings), seed=5).eval()


def _one_after_the_other(right: Callable[..., Any], method: Any, query: Tensor, *rest: Any) -> Tensor:
    """Each query waits for the result of the one before it; the results stay the same."""
    done: list[Tensor] = []
    for i in range(query.shape[2]):
        waits = query[:, :, i : i + 1] if not done else query[:, :, i : i + 1] + 0.0 * done[-1]
        done.append(right(method, waits, *rest))
    return torch.cat(done, dim=2)


def memory_grows() -> Evidence:
    """L1.11: bytes that an encoder layer keeps for its backward pass, counted tensor by tensor, over the length."""
    heads, lengths = 4, (64, 128, 256, 512)
    sizes = ["model.layers=1", "model.width=32", f"model.heads={heads}", "model.vocabulary.source=40"]
    off = ["model.vocabulary.pad=none", "model.dropout.residual=0.0", "model.dropout.embedding=0.0"]
    recipe = read_recipe(None, "model.family=encoder", *sizes, *off)
    model, bill = build(recipe, seed=1), cost(recipe)
    formulas = {"explicit": bill.saved, "fused": bill.fused.saved}
    kept: dict[str, list[int]] = {}
    for path in formulas:
        attention_path(model, path)
        kept[path] = [_saved_for(model, length) for length in lengths]
    wrong_by = {
        path: sum(abs(formulas[path].at(n=n, B=2) - seen) for n, seen in zip(lengths, kept[path], strict=True))
        for path in formulas
    }
    what = "bytes for each pair of tokens (the n² part)"

    def of_pairs(path: str) -> Measure:
        """bytes(n) = an + cn², so c = (bytes(2n) − 2 bytes(n)) / 2n², for two lines."""
        attention_path(model, path)
        n = lengths[1]
        square = (_saved_for(model, 2 * n) - 2 * _saved_for(model, n)) / (2 * n**2) / 2
        predicted = 4 * heads if path == "explicit" else 0
        return Measure(f"{what}, {path} path", predicted, square, tolerance=0.1)

    def missed_by(path: str) -> Measure:
        attention_path(model, path)
        missed = abs(formulas[path].at(n=lengths[0], B=2) - _saved_for(model, lengths[0]))
        return Measure(f"formula − bytes counted at n = {lengths[0]}, {path}", 0, missed)

    return Evidence(
        measures=(
            of_pairs("explicit"),
            of_pairs("fused"),
            Measure("formula − bytes counted, four lengths, explicit", 0, wrong_by["explicit"]),
            Measure("formula − bytes counted, four lengths, fused", 0, wrong_by["fused"]),
        ),
        wrong=(
            broken_block(
                "a fused path that forms its weights",
                "clearhead.attention.paths.choose_path",
                lambda right: lambda *given: "explicit",
                lambda: of_pairs("fused"),
            ),
            broken_block(
                "one matrix of weights for all heads",
                "clearhead.attention.attend.weigh",
                lambda right: lambda query, keys, **rest: right(query[:, :1], keys[:, :1], **rest),
                lambda: of_pairs("explicit"),
            ),
            broken_block(
                "a feed-forward net that keeps its hidden features twice",
                "clearhead.blocks.feedforward.StandardFeedForward.forward",
                lambda right: lambda self, x: self.down(torch.sigmoid(self.activation(self.up(x)))),
                lambda: missed_by("fused"),
            ),
        ),
        tables=(
            EvidenceTable(
                f"Bytes that an encoder layer keeps for its backward pass (d = 32, h = {heads}, two lines)",
                ("n", "explicit", "fused"),
                tuple(zip(lengths, kept["explicit"], kept["fused"], strict=True)),
            ),
        ),
        figures=(
            Lines(
                title="Bytes that an encoder layer keeps for its backward pass",
                alt="Both axes are logarithmic: the explicit path rises towards slope 2, the fused one has slope 1.",
                x_label="tokens n",
                y_label="bytes",
                log_x=True,
                log_y=True,
                series=tuple(
                    Series(name, tuple(map(float, lengths)), tuple(map(float, kept[path])))
                    for name, path in (("weights kept: n²", "explicit"), ("fused: n", "fused"))
                ),
            ),
        ),
    )


def _saved_for(model: nn.Module, length: int) -> int:
    ids = torch.randint(4, 40, (2, length))
    return saved_bytes(lambda: model(ids), model)
