"""L3.5: the equations in two dimensions, x and y in place of t."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from clearhead.attention import GridAttention, MultiHeadAttention
from clearhead.drawing.figure import Heat
from clearhead.lectures.demonstrations.broken import broken_block
from clearhead.lectures.demonstrations.compare import alike
from clearhead.lectures.demonstrations.pytorch import randomise
from clearhead.lectures.evidence import Evidence, Measure

PATHS = ("explicit", "fused")


def two_dimensions() -> Evidence:
    """L3.5: attention on a grid against the equations index by index, and against a line of X·Y cells."""
    X, Y, width, heads = 3, 5, 12, 3
    inside = MultiHeadAttention(width=width, heads=heads, scale="none", output=False, bias=False)
    randomise(inside)
    module = GridAttention(inside, grid=(X, Y))
    cells = torch.randn(2, X * Y, width)
    expected = torch.stack([_indexed(inside, grid.view(X, Y, width)) for grid in cells])

    def on(path: Any) -> Measure:
        inside.path = path
        with torch.no_grad():
            return alike(f"GridAttention against the equations over x and y, path {path}", module(cells), expected)

    def line() -> Measure:
        inside.path = "auto"
        with torch.no_grad():
            return alike("the same weights over a line of X·Y cells", module(cells), inside(cells))

    seen: list[Tensor] = []
    with torch.no_grad():
        handle = inside.weights.register_forward_hook(lambda _module, _inputs, weights: seen.append(weights))
        module(cells)
        handle.remove()
    weights = seen[0][0, 0, X * Y // 2].view(X, Y)  # of the cell in the middle
    tiles = "clearhead.attention.grid.attend_in_tiles"
    return Evidence(
        measures=(*(on(path) for path in PATHS), line()),
        wrong=(
            broken_block(
                "a softmax over y₂ for each x₂",
                tiles,
                lambda right: (
                    lambda *given, grid, tile, context: right(*given, grid=grid, tile=(1, tile[1]), context=context)
                ),
                partial(on, "explicit"),
            ),
            broken_block(
                "cells put back column by column",
                "clearhead.attention.grid.from_tiles",
                lambda right: lambda *given: right(*given).unflatten(1, (X, Y)).transpose(1, 2).flatten(1, 2),
                partial(on, "fused"),
            ),
            broken_block(
                "a softmax over (x₁, y₁)",
                "clearhead.attention.choice.choose",
                lambda right: lambda scores, _mask, choice: right(scores.mT, None, choice).mT,
                partial(on, "explicit"),
            ),
        ),
        figures=(
            Heat(
                title="Where the cell in the middle looks: one softmax over all cells of the grid",
                alt="The weights of one head over a grid of 3 rows and 5 columns; together they are 1.",
                x_label="y₂",
                y_label="x₂",
                values=tuple(tuple(row) for row in weights.tolist()),
                rows=tuple(str(x) for x in range(X)),
                columns=tuple(str(y) for y in range(Y)),
            ),
        ),
    )


def _indexed(module: Any, h_in: Tensor) -> Tensor:
    """Query[k, x, y, u] … Out[k, x, y, i], with a softmax over pairs (x₂, y₂)."""
    X, Y, J = h_in.shape
    W = {name: getattr(module, name).weight.view(module.heads, -1, J) for name in ("query", "key", "value")}
    query, key, value = (torch.einsum("kuj,xyj->kxyu", W[name], h_in) for name in ("query", "key", "value"))
    score = torch.einsum("kxyu,kabu->kxyab", query, key)
    alpha = score.flatten(3).softmax(-1).view(score.shape)
    out = torch.einsum("kxyab,kabi->kxyi", alpha, value)
    return torch.cat(list(out), dim=-1).view(X * Y, J)
