"""L3.5: the equations in two dimensions, x and y in place of t."""

from typing import Any

import torch
from torch import Tensor

from clearhead.attention import GridAttention, MultiHeadAttention
from clearhead.drawing.figure import Heat
from clearhead.lectures.demonstrations.compare import alike
from clearhead.lectures.demonstrations.pytorch import randomise
from clearhead.lectures.evidence import Evidence, Wrong


def two_dimensions() -> Evidence:
    """L3.5: attention on a grid against the equations index by index, and against a line of X·Y cells."""
    X, Y, width, heads = 3, 5, 12, 3
    inside = MultiHeadAttention(width=width, heads=heads, scale="none", output=False, bias=False)
    randomise(inside)
    module = GridAttention(inside, grid=(X, Y))
    cells = torch.randn(1, X * Y, width)
    seen: list[Tensor] = []
    with torch.no_grad():
        mine, line = module(cells)[0], inside(cells)[0]
        handle = inside.weights.register_forward_hook(lambda _module, _inputs, weights: seen.append(weights))
        module(cells)
        handle.remove()
        pairs, rows = (_indexed(inside, cells[0].view(X, Y, width), jointly) for jointly in (True, False))
    name = "GridAttention against the equations over x and y"
    weights = seen[0][0, 0, X * Y // 2].view(X, Y)  # of the cell in the middle
    return Evidence(
        measures=(
            alike(name, mine, pairs),
            alike("the same weights over a line of X·Y cells", mine, line),
        ),
        wrong=(
            Wrong("a softmax over x₂ for each y₂", alike(name, mine, rows)),
            Wrong("cells taken in another order", alike("over a line", module(cells.flip(1))[0], line)),
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


def _indexed(module: Any, h_in: Tensor, jointly: bool) -> Tensor:
    """Query[k, x, y, u] … Out[k, x, y, i], with a softmax over pairs (x₂, y₂), or over x₂ alone."""
    X, Y, J = h_in.shape
    W = {name: getattr(module, name).weight.view(module.heads, -1, J) for name in ("query", "key", "value")}
    query, key, value = (torch.einsum("kuj,xyj->kxyu", W[name], h_in) for name in ("query", "key", "value"))
    score = torch.einsum("kxyu,kabu->kxyab", query, key)
    alpha = score.flatten(3).softmax(-1).view(score.shape) if jointly else score.softmax(3)
    out = torch.einsum("kxyab,kabi->kxyi", alpha, value)
    return torch.cat(list(out), dim=-1).view(X * Y, J)
