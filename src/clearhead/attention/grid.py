"""Attention in two dimensions (L3.5): over the whole grid, along its axes, or inside windows.

A grid of X rows and Y columns is a sequence of X·Y cells, row by row. All three kinds are multi-head attention inside
*tiles*, each of which is a sequence: one tile of X × Y, tiles of 1 × Y and then of X × 1, or tiles of w × w. So nothing
larger than the weights inside the tiles is ever stored.

Shapes: b batch, n = X·Y cells, d features; t tiles of r × c cells, each a sequence of s = r·c.
"""

from jaxtyping import Float, Shaped
from torch import Tensor, nn

from clearhead.attention.context import AttentionContext
from clearhead.attention.multihead import MultiHeadAttention
from clearhead.recipe import AxialSpec, GridSpec, WindowSpec

Cells = tuple[int, int]
"""Rows and columns of a grid or of a tile."""


def to_tiles(cells: Shaped[Tensor, "b n *f"], grid: Cells, tile: Cells) -> Shaped[Tensor, "bt s *f"]:
    """Cut every grid of a batch into tiles, row by row; the cells of a tile stay in order, row by row."""
    (rows, columns), (r, c) = grid, tile
    cut = cells.reshape(-1, rows // r, r, columns // c, c, *cells.shape[2:])  # (b, X/r, r, Y/c, c, *f)
    return cut.transpose(2, 3).reshape(-1, r * c, *cells.shape[2:])  # (b·t, s, *f)


def from_tiles(tiles: Shaped[Tensor, "bt s *f"], grid: Cells, tile: Cells) -> Shaped[Tensor, "b n *f"]:
    """Put tiles back together: the inverse of ``to_tiles``."""
    (rows, columns), (r, c) = grid, tile
    cut = tiles.reshape(-1, rows // r, columns // c, r, c, *tiles.shape[2:])  # (b, X/r, Y/c, r, c, *f)
    return cut.transpose(2, 3).reshape(-1, rows * columns, *tiles.shape[2:])  # (b, n, *f)


def attend_in_tiles(
    attention: MultiHeadAttention,
    cells: Float[Tensor, "b n d"],
    *,
    grid: Cells,
    tile: Cells,
    context: AttentionContext | None,
) -> Float[Tensor, "b n o"]:
    """Compute attention among the cells of each tile."""
    tiles = to_tiles(cells, grid, tile).contiguous()  # columns are a view, which each projection would copy
    seen: Tensor = attention(tiles, context=None if context is None else _inside(context, grid, tile))
    return from_tiles(seen, grid, tile)


def _inside(context: AttentionContext, grid: Cells, tile: Cells) -> AttentionContext:
    """The context inside the tiles: distances are the same in all of them, so the first one's positions serve all."""
    if context.causal:
        raise ValueError("cells of a grid have no order in time: attention on a grid cannot be causal")

    def make() -> AttentionContext:
        where = None if context.queries is None else to_tiles(context.queries.view(1, -1), grid, tile)[0]  # (s,)
        valid = None if context.valid is None else to_tiles(context.valid, grid, tile)  # (b·t, s)
        return AttentionContext(valid=valid, scheme=context.scheme, queries=where, keys=where)

    return context.shared.tile(context.scheme, tile, make)


class GridAttention(nn.Module):
    """Out[x₁, y₁] = Σ α[x₁, y₁, x₂, y₂] Value[x₂, y₂], with a softmax jointly over (x₂, y₂) (L3.5).

    A softmax over pairs (x, y) is a softmax over their numbers, so this is multi-head attention over X·Y cells, at
    4XYd² + 2(XY)²d multiply-accumulates.

    Args:
        inside: the multi-head attention over all cells.
        grid: rows and columns, (X, Y).
    """

    def __init__(self, inside: MultiHeadAttention, *, grid: Cells) -> None:
        super().__init__()
        self.inside, self.grid = inside, grid

    @classmethod
    def from_spec(
        cls, spec: GridSpec, *, width: int, memory_width: int, dropout: float, grid: Cells
    ) -> "GridAttention":
        """Build from a recipe."""
        return cls(
            MultiHeadAttention.from_spec(spec, width=width, memory_width=memory_width, dropout=dropout), grid=grid
        )

    @property
    def tiles(self) -> dict[str, Cells]:
        """The size of the tiles inside which each part attends, in the order in which they run."""
        return {"inside": self.grid}

    def extra_repr(self) -> str:
        return f"{self.grid[0]} × {self.grid[1]} at once"

    def forward(
        self, cells: Float[Tensor, "b n d"], *, context: AttentionContext | None = None, cache: None = None
    ) -> Float[Tensor, "b n o"]:
        """Compute attention among all cells."""
        del cache  # images are not decoded step by step
        return attend_in_tiles(self.inside, cells, grid=self.grid, tile=self.grid, context=context)


class AxialAttention(nn.Module):
    """Attention along each row, then along each column, each with projections of its own (Ho et al. 2019).

    Every cell reaches every other in two steps, at 8XYd² + 2XY(X + Y)d multiply-accumulates.

    Args:
        rows: the attention along each row.
        columns: the attention along each column, applied to the result of ``rows``.
        grid: rows and columns, (X, Y).
    """

    def __init__(self, rows: MultiHeadAttention, columns: MultiHeadAttention, *, grid: Cells) -> None:
        super().__init__()
        self.rows, self.columns, self.grid = rows, columns, grid

    @classmethod
    def from_spec(
        cls, spec: AxialSpec, *, width: int, memory_width: int, dropout: float, grid: Cells
    ) -> "AxialAttention":
        """Build from a recipe."""
        rows, columns = (
            MultiHeadAttention.from_spec(spec, width=width, memory_width=memory_width, dropout=dropout)
            for _ in ("rows", "columns")
        )
        return cls(rows, columns, grid=grid)

    @property
    def tiles(self) -> dict[str, Cells]:
        """The size of the tiles inside which each part attends, in the order in which they run."""
        return {"rows": (1, self.grid[1]), "columns": (self.grid[0], 1)}

    def extra_repr(self) -> str:
        return f"{self.grid[0]} rows, then {self.grid[1]} columns"

    def forward(
        self, cells: Float[Tensor, "b n d"], *, context: AttentionContext | None = None, cache: None = None
    ) -> Float[Tensor, "b n o"]:
        """Compute attention along each row, then along each column."""
        del cache
        rows, columns = self.grid
        along = attend_in_tiles(self.rows, cells, grid=self.grid, tile=(1, columns), context=context)
        return attend_in_tiles(self.columns, along, grid=self.grid, tile=(rows, 1), context=context)


class WindowAttention(nn.Module):
    """Attention inside windows of w × w cells, at 4XYd² + 2w²XYd multiply-accumulates.

    Information never passes between windows, whatever the number of layers; only what follows the stack combines them.

    Args:
        inside: the attention in each window.
        grid: rows and columns, (X, Y); multiples of ``size``.
        size: rows and columns of a window, w.
    """

    def __init__(self, inside: MultiHeadAttention, *, grid: Cells, size: int) -> None:
        super().__init__()
        self.inside, self.grid, self.size = inside, grid, size

    @classmethod
    def from_spec(
        cls, spec: WindowSpec, *, width: int, memory_width: int, dropout: float, grid: Cells
    ) -> "WindowAttention":
        """Build from a recipe."""
        inside = MultiHeadAttention.from_spec(spec, width=width, memory_width=memory_width, dropout=dropout)
        return cls(inside, grid=grid, size=spec.size)

    @property
    def tiles(self) -> dict[str, Cells]:
        """The size of the tiles inside which each part attends, in the order in which they run."""
        return {"inside": (self.size, self.size)}

    def extra_repr(self) -> str:
        return f"{self.size} × {self.size} of {self.grid[0]} × {self.grid[1]}"

    def forward(
        self, cells: Float[Tensor, "b n d"], *, context: AttentionContext | None = None, cache: None = None
    ) -> Float[Tensor, "b n o"]:
        """Compute attention among the cells of each window."""
        del cache
        tile = (self.size, self.size)
        return attend_in_tiles(self.inside, cells, grid=self.grid, tile=tile, context=context)
