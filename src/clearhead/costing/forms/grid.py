"""What attention in two dimensions costs (L3.5): multi-head attention inside tiles of a grid."""

from dataclasses import dataclass, field, replace

from sympy import Expr, Integer

from clearhead.costing.forms.attention import Look, multihead
from clearhead.costing.forms.position import Acting, Bias, Scheme
from clearhead.costing.forms.sketch import INDEX, Ledger, Sketch, Storage
from clearhead.recipe import Axial, Grid, MultiHead, Relative2d, Window


def _in_tiles(name: str, spec: MultiHead, x: Sketch, *, look: Look, tile: tuple[Expr, Expr], moved: bool) -> Sketch:
    """Every cell looks at its own tile, a sequence of its own; ``moved`` if the cells of a tile lie apart in memory."""
    batch, cells, width = x.shape
    inside = tile[0] * tile[1]
    tiles = x.view(batch * cells / inside, inside, width)
    own = replace(look, scheme=look.scheme.inside(tile))
    tiles = tiles.copy() if moved else tiles
    seen = x.ledger.measured(name, lambda y: multihead(spec, y, look=own), tiles)
    return (seen.copy() if moved else seen).view(batch, cells, width)


def _grid(look: Look) -> tuple[Expr, Expr]:
    assert look.grid is not None  # a recipe with this attention reads images
    return look.grid


def grid(spec: Grid, x: Sketch, *, look: Look) -> Sketch:
    """The whole grid at once: 4XYd² + 2(XY)²d."""
    return _in_tiles("inside", spec, x, look=look, tile=_grid(look), moved=False)


def axial(spec: Axial, x: Sketch, *, look: Look) -> Sketch:
    """Rows, then columns: 8XYd² + 2XY(X + Y)d; two steps reach every cell."""
    rows, columns = _grid(look)
    one = Integer(1)
    along = _in_tiles("rows", spec, x, look=look, tile=(one, columns), moved=False)
    y = _in_tiles("columns", spec, along, look=look, tile=(rows, one), moved=True)
    x.ledger.here.path = Integer(2)
    for part in x.ledger.here.parts[-2:]:
        part.path = None  # only both together join all cells
    return y


def window(spec: Window, x: Sketch, *, look: Look) -> Sketch:
    """Windows of w × w: 4XYd² + 2w²XYd; windows never see each other."""
    size = x.ledger.letters("w", spec.size, look.part)
    y = _in_tiles("inside", spec, x, look=look, tile=(size, size), moved=True)
    x.ledger.here.parts[-1].path = None
    return y


@dataclass
class GridBias(Scheme):
    """A learned bias for every distance in rows and columns, looked up once for each shape of tile."""

    ledger: Ledger
    heads: Expr
    grid: tuple[Expr, Expr]
    made: dict[tuple[Expr, Expr], Bias] = field(default_factory=dict)

    def inside(self, tile: tuple[Expr, Expr]) -> Scheme:
        """The bias of a tile; all layers share it, and the numbers of its distances, 2r − 1 and 2c − 1, are kept."""
        if tile not in self.made:
            rows, columns = tile
            self.ledger.save(Storage((2 * rows + 2 * columns - 2) * INDEX, number=0))
            self.made[tile] = Bias(self.ledger.input(self.heads, rows * columns, rows * columns))
        return self.made[tile]

    def bias(self) -> Sketch:
        """Over the whole sequence, for attention that knows no grid."""
        return self.inside(self.grid).bias()  # type: ignore[return-value]


def relative_2d(spec: Relative2d, ledger: Ledger, where: Acting) -> Scheme:
    """A table of (2k+1)² distances × heads."""
    farthest = ledger.letters("k", spec.farthest, where.part)
    ledger.parameter((2 * farthest + 1) ** 2, where.heads, kind="table")
    assert where.grid is not None  # a recipe with these positions reads images
    return GridBias(ledger, where.heads, where.grid)
