"""L4.9: disentangled attention against the literal loops of Algorithm 1, with both readings of its index."""

import copy
import math
import warnings
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

import torch
from torch import Tensor

from clearhead.attention import DisentangledAttention, RelativeTable
from clearhead.attention.blockwise import Distances
from clearhead.drawing.figure import Heat
from clearhead.lectures.demonstrations.broken import broken_block
from clearhead.lectures.demonstrations.compare import ROUNDING, alike, far
from clearhead.lectures.demonstrations.pytorch import randomise
from clearhead.lectures.demonstrations.ways import alike_on_every_path, gaps
from clearhead.lectures.evidence import Evidence, EvidenceTable, Measure, Wrong
from clearhead.recipe import read_recipe

SPAN, LENGTH, WIDTH, HEADS = 3, 7, 16, 2
Reading = Literal["released", "paper"]
FORWARD = "clearhead.attention.disentangled.DisentangledAttention.forward"


def algorithm_one() -> Evidence:
    """L4.9: c2c, c2p and p2c over √(3d), for δ[i, j] as released models have it, and δ[j, i] as the paper prints it."""
    readings: tuple[Reading, ...] = ("paper", "released")
    table = RelativeTable(width=WIDTH, span=SPAN)
    modules = {
        reading: DisentangledAttention(width=WIDTH, heads=HEADS, shared=table, p2c_index=reading)
        for reading in readings
    }
    randomise(modules["released"])
    modules["paper"].load_state_dict(modules["released"].state_dict())
    x = torch.randn(LENGTH, WIDTH)
    names = {"paper": "p2c index δ[j, i] (Algorithm 1)", "released": "p2c index δ[i, j] (released models)"}
    name = "against the literal loops"

    def worst(reading: Reading, path: str) -> Measure:
        loops = partial(_algorithm, modules[reading], x, reading)
        return Measure(f"{name}, {path}: max|Δ|", 0.0, gaps(modules[reading], x, loops)[path], tolerance=ROUNDING)

    with torch.no_grad():
        measures = [
            measure
            for reading in readings
            for measure in alike_on_every_path(
                f"{names[reading]} {name}", modules[reading], x, partial(_algorithm, modules[reading], x, reading)
            )
        ]
        wrong = _damaged(worst)
        paper, released = (modules[one](x[None]) for one in readings)
        readings_apart = far("the two readings, the same weights", paper, released, 0.01)
    preset: Any = read_recipe("deberta-v3-base").model

    def beside_transformers() -> Measure:
        both = _beside_transformers(modules["released"], x[None])
        return alike("ours against transformers' DeBERTa, which runs every released model", *both)

    installed = find_spec("transformers") is not None
    measured = [beside_transformers()] if installed else []
    rejected = [broken_block("the index of Algorithm 1", FORWARD, _as_printed, beside_transformers)] * installed
    delta = [[_delta(i, j) for j in range(LENGTH)] for i in range(LENGTH)]
    return Evidence(
        measures=(
            *measures,
            readings_apart,
            Measure("p2c index of the preset deberta-v3-base", "released", preset.encoder.attention.p2c_index),
            Measure(
                "rows of P that a long line reads, for distances −k … k − 1",
                len(table.table.weight),
                len(set(table.row(torch.arange(-99, 100)).tolist())),
            ),
            *measured,
        ),
        wrong=(*wrong, *rejected),
        tables=(
            EvidenceTable(
                f"δ[i, j] = clip(i − j + k, 0, 2k − 1), k = {SPAN}",
                ("i", *(f"j = {j}" for j in range(LENGTH))),
                tuple((i, *row) for i, row in enumerate(delta)),
            ),
        ),
        figures=(
            Heat(
                title="δ[i, j]: the row of P for every pair; far distances share one",
                alt="Rows of the table fall from left to right and rise downwards, and are clipped at both ends.",
                x_label="key j",
                y_label="query i",
                values=tuple(tuple(map(float, row)) for row in delta),
                rows=tuple(map(str, range(LENGTH))),
                columns=tuple(map(str, range(LENGTH))),
            ),
        ),
        notes=(
            "Every released model, and transformers' code that runs them, reads p2c at δ[i, j]"
            + ("." if measured else " (install transformers to see it measured here).")
            + " Algorithm 1 prints δ[j, i]: model.attention.p2c_index = paper.",
        ),
    )


def _damaged(worst: Callable[[Reading, str], Measure]) -> list[Wrong]:
    """Disentangled attention with one part broken, each measured on the path that it belongs to."""
    scores = "clearhead.attention.disentangled.DisentangledAttention._scores"
    blocks = "clearhead.attention.disentangled.attend_by_distance"

    def scaled(factor: float) -> Callable[[Any], Any]:
        return lambda right: lambda *given: right(*given) * factor

    def mirrored(right: Any) -> Any:
        """p2c of the other reading: its table in reverse order of distances."""

        def attend(*given: Any, distances: Distances, query_table: Tensor, **more: Any) -> Tensor:
            turned = query_table[:, (-distances.all()).clamp(distances.low, distances.high) - distances.low]
            out: Tensor = right(*given, distances=distances, query_table=turned, **more)
            return out

        return attend

    return [
        broken_block(
            "√d instead of √(3d): three terms have three times the variance",
            scores,
            scaled(math.sqrt(3)),
            partial(worst, "paper", "explicit"),
        ),
        broken_block(
            "d taken as the width of the tokens, not of a head",
            scores,
            scaled(1 / math.sqrt(HEADS)),
            partial(worst, "paper", "explicit"),
        ),
        broken_block(
            "the rows of the table shifted by one",
            "clearhead.attention.disentangled.RelativeTable.row",
            lambda right: lambda self, distance: right(self, distance + 1),
            partial(worst, "released", "explicit"),
        ),
        broken_block("p2c of the other reading, in blocks alone", blocks, mirrored, partial(worst, "paper", "blocks")),
        broken_block(
            "p2c left out, in blocks alone",
            blocks,
            lambda right: lambda *given, **more: right(*given, **(more | {"query_table": None})),
            partial(worst, "released", "blocks"),
        ),
        broken_block(
            "padding attended to, in blocks alone",
            blocks,
            lambda right: lambda *given, **more: right(*given, **(more | {"valid": None})),
            partial(worst, "released", "blocks"),
        ),
        broken_block(
            "with a cache, a table that is read in the wrong order",
            "clearhead.attention.disentangled.DisentangledAttention._projected",
            lambda right: lambda *given: tuple(table.flip(1) for table in right(*given)),
            partial(worst, "released", "cache"),
        ),
    ]


def _delta(i: int, j: int) -> int:
    return max(0, min(2 * SPAN - 1, i - j + SPAN))


def _algorithm(module: Any, H: Tensor, reading: Reading, seen: Tensor) -> Tensor:
    """Algorithm 1, line by line, for each head; with the other index where released models have it."""
    size = WIDTH // HEADS
    P = module.places.table.weight
    N, heads = len(H), []
    for head in range(HEADS):
        part = slice(head * size, (head + 1) * size)
        K_c, Q_c, V_c = (projection(H)[:, part] for projection in (module.key, module.query, module.value))
        K_r, Q_r = module.place_key(P)[:, part], module.place_query(P)[:, part]
        A = Q_c @ K_c.T
        to_place, from_place = torch.empty(N, len(P)), torch.empty(len(P), N)
        for i in range(N):
            to_place[i] = Q_c[i] @ K_r.T
        for j in range(N):
            from_place[:, j] = K_c[j] @ Q_r.T
        for i in range(N):
            for j in range(N):
                A[i, j] += to_place[i, _delta(i, j)]
                A[i, j] += from_place[_delta(j, i) if reading == "paper" else _delta(i, j), j]
        heads.append((A / math.sqrt(3 * size)).masked_fill(~seen, -torch.inf).softmax(-1) @ V_c)
    out: Tensor = module.output(torch.cat(heads, dim=-1))
    return out


def _as_printed(right: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Break ``FORWARD``: p2c at δ[j, i], whatever the setting says."""

    def forward(self: DisentangledAttention, *given: Any, **more: Any) -> Tensor:
        printed = copy.copy(self)
        printed.p2c_index = "paper"
        return right(printed, *given, **more)

    return forward


def _beside_transformers(module: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """Our heads and those of transformers' DeBERTa with the same weights."""
    with warnings.catch_warnings(action="ignore"):  # transformers uses torch.jit, which warns
        deberta = import_module("transformers.models.deberta.modeling_deberta")
        configuration = import_module("transformers").DebertaConfig
    settings = {"relative_attention": True, "max_relative_positions": SPAN, "pos_att_type": ["c2p", "p2c"]}
    config = configuration(hidden_size=WIDTH, num_attention_heads=HEADS, **settings)
    theirs = deberta.DisentangledSelfAttention(config).eval()
    mine = copy.deepcopy(module).eval()
    mine.output = torch.nn.Identity()
    size = WIDTH // HEADS
    parts = [part.weight.split(size) for part in (mine.query, mine.key, mine.value)]
    with torch.no_grad():
        for part in (mine.key, mine.place_key):
            part.bias.zero_()  # DeBERTa has no bias there
        theirs.in_proj.weight.copy_(torch.cat([part[head] for head in range(HEADS) for part in parts]))
        theirs.q_bias.copy_(mine.query.bias)
        theirs.v_bias.copy_(mine.value.bias)
        theirs.pos_proj.weight.copy_(mine.place_key.weight)
        theirs.pos_q_proj.load_state_dict(mine.place_query.state_dict())
        seen = torch.ones(1, 1, LENGTH, LENGTH)
        distances = deberta.build_relative_position(x, x)
        heads = theirs(x, seen, relative_pos=distances, rel_embeddings=mine.places.table.weight)[0]
        return mine(x)[0], heads[0]
