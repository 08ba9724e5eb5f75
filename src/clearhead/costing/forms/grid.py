"""What attention in two dimensions costs (L3.5): multi-head attention inside tiles of a grid."""

from dataclasses import dataclass, field, replace

from sympy import Expr, Integer

from clearhead.costing.forms.attention import AttentionSetting, multihead
from clearhead.costing.forms.position import Bias, PositionSetting, Scheme
from clearhead.costing.forms.sketch import INDEX, Ledger, Sketch, Storage
from clearhead.recipe import AxialSpec, GridSpec, MultiHeadSpec, Relative2dSpec, WindowSpec


def _in_tiles(
    name: str, spec: MultiHeadSpec, x: Sketch, *, setting: AttentionSetting, tile: tuple[Expr, Expr], moved: bool
) -> Sketch:
    """Every cell attends to its own tile, as to a sequence; ``moved`` if the cells of a tile lie apart in memory."""
    batch, cells, width = x.shape
    inside = tile[0] * tile[1]
    tiles = x.view(batch * cells / inside, inside, width)
    own = replace(setting, scheme=setting.scheme.inside(tile))
    tiles = tiles.copy() if moved else tiles
    seen = x.ledger.measured(name, lambda y: multihead(spec, y, setting=own), tiles)
    return (seen.copy() if moved else seen).view(batch, cells, width)


def _grid(setting: AttentionSetting) -> tuple[Expr, Expr]:
    assert setting.grid is not None  # a recipe with this attention reads images
    return setting.grid


def grid(spec: GridSpec, x: Sketch, *, setting: AttentionSetting) -> Sketch:
    """The whole grid at once: 4XYd² + 2(XY)²d."""
    return _in_tiles("inside", spec, x, setting=setting, tile=_grid(setting), moved=False)


def axial(spec: AxialSpec, x: Sketch, *, setting: AttentionSetting) -> Sketch:
    """Rows, then columns: 8XYd² + 2XY(X + Y)d; two steps reach every cell."""
    rows, columns = _grid(setting)
    one = Integer(1)
    along = _in_tiles("rows", spec, x, setting=setting, tile=(one, columns), moved=False)
    y = _in_tiles("columns", spec, along, setting=setting, tile=(rows, one), moved=True)
    x.ledger.here.path = Integer(2)
    for part in x.ledger.here.parts[-2:]:
        part.path = None  # only both together join all cells
    return y


def window(spec: WindowSpec, x: Sketch, *, setting: AttentionSetting) -> Sketch:
    """Windows of w × w: 4XYd² + 2w²XYd; windows never see each other."""
    size = x.ledger.letters("w", spec.size, setting.part)
    y = _in_tiles("inside", spec, x, setting=setting, tile=(size, size), moved=True)
    x.ledger.here.parts[-1].path = None
    return y


@dataclass
class GridBiasForm(Scheme):
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


def relative_2d(spec: Relative2dSpec, ledger: Ledger, where: PositionSetting) -> Scheme:
    """A table of (2k+1)² distances × heads."""
    farthest = ledger.letters("k", spec.farthest, where.part)
    ledger.parameter((2 * farthest + 1) ** 2, where.heads, kind="table", name="table.weight")
    assert where.grid is not None  # a recipe with these positions reads images
    return GridBiasForm(ledger, where.heads, where.grid)
