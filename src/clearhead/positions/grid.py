"""Positions on a grid: sinusoids of row and column, and biases by distance in both directions (L3.5).

A cell's position is its number, counted row by row; its row and column are quotient and remainder of division by the
number of columns. So a grid is numbered like a sequence, and everything made for sequences works on it.

Shapes: b batch, n queries, m keys, h heads, d features.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from clearhead.positions.absolute import Layout, SinusoidalPosition
from clearhead.positions.base import AbsolutePosition, RelativePosition, by_distance
from clearhead.positions.branching import may_branch
from clearhead.recipe import Relative2dSpec, Sinusoidal2dSpec


class GridSinusoids(AbsolutePosition):
    """[sinusoids of the row ‖ sinusoids of the column], each of d/2 features.

    Args:
        width: features of a token, d.
        grid: rows and columns.
        class_token: whether a class token precedes the grid; it gets 0 (as in MAE). Default: False.
        layout: the order of sines and cosines: ``interleaved`` (the default), ``halves`` (MAE) or ``tensor2tensor``.
        base: the base of the frequencies. Default: 10,000.
    """

    def __init__(
        self,
        *,
        width: int,
        grid: tuple[int, int],
        class_token: bool = False,
        layout: Layout = "interleaved",
        base: float = 10_000.0,
    ) -> None:
        super().__init__()
        self.grid, self.class_token = grid, class_token
        self.axis = SinusoidalPosition(width=width // 2, layout=layout, base=base)

    @classmethod
    def from_spec(
        cls, spec: Sinusoidal2dSpec, *, width: int, grid: tuple[int, int], class_token: bool
    ) -> "GridSinusoids":
        """Build from a recipe."""
        return cls(width=width, grid=grid, class_token=class_token, layout=spec.layout, base=spec.base)

    def extra_repr(self) -> str:
        rows, columns = self.grid
        return f"{rows} × {columns}"

    def forward(self, positions: Int[Tensor, "*b n"], end: int) -> Float[Tensor, "*b n d"]:
        columns = self.grid[1]
        cells = (positions - int(self.class_token)).clamp(min=0)
        row = self.axis(cells // columns, -(-end // columns))
        column = self.axis(cells % columns, columns)
        where = torch.cat((row, column), dim=-1)
        return where.masked_fill((positions == 0).unsqueeze(-1), 0.0) if self.class_token else where


def grid_offset(
    queries: Int[Tensor, "*b n"], keys: Int[Tensor, "*b m"], *, columns: int, farthest: int
) -> Int[Tensor, "*b n m"]:
    """The index of the offset (Δx, Δy) from a query to a key, 0 … (2k+1)² − 1, each clipped to ±k.

    With Δx = x_key − x_query in rows and Δy the same in columns it is (Δx + k)(2k + 1) + Δy + k.
    """

    def clipped(query: Tensor, key: Tensor) -> Tensor:
        return (key.unsqueeze(-2) - query.unsqueeze(-1)).clamp(-farthest, farthest) + farthest  # (*b, n, m)

    rows = clipped(queries // columns, keys // columns)
    return rows * (2 * farthest + 1) + clipped(queries % columns, keys % columns)


def by_offset(values: Float[Tensor, "h dx dy"], rows: int, columns: int) -> Float[Tensor, "h n n"]:
    """Expand the values of all offsets to all pairs of cells of an r × c grid, numbered row by row.

    Entry (x₁c + y₁, x₂c + y₂) is value (x₂ − x₁ + r − 1, y₂ − y₁ + c − 1). Whole rows are copied, not single numbers.
    """
    lines = by_distance(values, columns).transpose(1, 2).contiguous()  # (h, c, 2r − 1, c), by y₁, Δx, y₂
    seen = [lines[:, :, rows - 1 - x : 2 * rows - 1 - x].flatten(2) for x in range(rows)]  # (h, c, r·c) from row x
    return torch.stack(seen, dim=1).flatten(1, 2)


def rectangle(positions: Int[Tensor, "n"], columns: int) -> tuple[int, int] | None:
    """Rows and columns of the rectangle that these cells fill, row by row; None if they do not fill one."""
    first, count = int(positions[0]), len(positions)
    ends = (positions.diff() != 1).nonzero()
    broad = min(int(ends[0]) + 1 if len(ends) else count, columns - first % columns)
    if count % broad:
        return None
    cells = torch.arange(count, device=positions.device)
    filled = first + cells // broad * columns + cells % broad
    return (count // broad, broad) if torch.equal(filled, positions) else None


class GridBias(RelativePosition):
    """A learned bias for each head and offset (Δx, Δy): shifting the whole image changes nothing (L2.11).

    Args:
        heads: number of heads, h.
        grid: rows and columns.
        farthest: k, the largest offset that is distinguished in each direction; the table is ((2k + 1)², h).
    """

    def __init__(self, *, heads: int, grid: tuple[int, int], farthest: int) -> None:
        super().__init__()
        self.grid, self.farthest = grid, farthest
        self.table = nn.Embedding((2 * farthest + 1) ** 2, heads)

    @classmethod
    def from_spec(
        cls,
        spec: Relative2dSpec,
        *,
        heads: int,
        head_size: int,
        value_size: int,
        causal: bool,
        grid: tuple[int, int],
        class_token: bool,
    ) -> "GridBias":
        """Build from a recipe."""
        del head_size, value_size, causal, class_token
        return cls(heads=heads, grid=grid, farthest=spec.farthest)

    def extra_repr(self) -> str:
        return f"up to ±{self.farthest} rows and columns"

    def bias(self, queries: Int[Tensor, "*b n"], keys: Int[Tensor, "*b m"]) -> Float[Tensor, "*b h n m"]:
        """table[(Δx, Δy)] for every query and key.

        The cells of an r × c rectangle have (2r − 1)(2c − 1) offsets, not (rc)²: the table is read for these alone.
        """
        shared = queries.dim() == 1 and may_branch(queries) and torch.equal(queries, keys)
        if shared and (shape := rectangle(queries, self.grid[1])) is not None:
            rows, columns = (self._clipped(torch.arange(1 - size, size, device=keys.device)) for size in shape)
            side = 2 * self.farthest + 1
            table = self.table.weight.T.reshape(-1, side, side)  # (h, 2k + 1, 2k + 1)
            return by_offset(table[:, rows[:, None], columns], *shape)
        bias: Tensor = self.table(grid_offset(queries, keys, columns=self.grid[1], farthest=self.farthest))
        return bias.movedim(-1, -3)  # (*b, h, n, m)

    def _clipped(self, distance: Int[Tensor, "*s"]) -> Int[Tensor, "*s"]:
        return distance.clamp(-self.farthest, self.farthest) + self.farthest
