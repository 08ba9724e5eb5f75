"""Specs for two dimensions: images cut into patches, and attention and positions on the grid that these form."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from clearhead.recipe.attention import AttentionPlace, Count, Kept, MultiHeadSpec
from clearhead.recipe.position import PositionSpec, SinusoidalSpec
from clearhead.recipe.registry import register
from clearhead.recipe.spec import Spec

Pixels = Annotated[int, Field(ge=1, le=100_000)]


class PatchesSpec(Spec):
    """Images instead of token ids: cut into square patches, each of which becomes a token, row by row."""

    height: Pixels = 8
    """Pixels of an image from top to bottom."""
    width: Pixels = 8
    """Pixels of an image from left to right."""
    channels: Pixels = 1
    """Numbers that make up a pixel: 1 for grey, 3 for colours."""
    size: Pixels = 2
    """Pixels of a patch in either direction; must divide height and width."""
    class_token: bool = False
    """A learned token before the patches, which `pooling = first` reads (ViT)."""

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches, X and Y."""
        return self.height // self.size, self.width // self.size

    @property
    def tokens(self) -> int:
        """How many tokens an image becomes."""
        rows, columns = self.grid
        return rows * columns + self.class_token

    def refusals(self) -> Iterator[tuple[str, str]]:
        """Patches that do not cover the image exactly."""
        for side in ("height", "width"):
            if (pixels := getattr(self, side)) % self.size:
                yield "size", f"patches of {self.size} pixels must divide the {side} ({pixels})"


class _Planar(MultiHeadSpec):
    causal: ClassVar[bool] = False
    cached: ClassVar[bool] = False
    planar: ClassVar[bool] = True


class GridSpec(_Planar):
    """Every patch of an image attends to every other, softmax jointly over rows and columns (L3.5)."""

    kind: Literal["grid"] = "grid"  # type: ignore[assignment]


class _Cut(_Planar):
    """The base of attention inside parts of a grid."""

    def refusals(self, place: AttentionPlace) -> Iterator[tuple[str, str]]:
        """What multi-head attention refuses, and positions that know one dimension only."""
        yield from super().refusals(place)
        if place.position is not None and not place.position.planar:
            yield (
                "kind",
                f"{place.position.kind} positions count along one line, which {self.kind} attention cuts up: "
                "use relative-2d",
            )


class AxialSpec(_Cut):
    """Attention along the rows of a grid, then along its columns: two steps reach every patch."""

    kind: Literal["axial"] = "axial"  # type: ignore[assignment]

    def _kept_refusals(self, kept: Kept, place: AttentionPlace) -> Iterator[tuple[str, str]]:
        del kept, place
        yield "kept", "axial attention has heads along rows and along columns, and one setting for both"


class WindowSpec(_Cut):
    """Attention inside square windows of a grid, which do not see each other."""

    kind: Literal["window"] = "window"  # type: ignore[assignment]
    size: Count = 4
    """Patches of a window in either direction, w; must divide the rows and the columns of the grid."""

    def refusals(self, place: AttentionPlace) -> Iterator[tuple[str, str]]:
        """The same, and windows that do not cover the grid exactly."""
        yield from super().refusals(place)
        if place.grid is not None and any(cells % self.size for cells in place.grid):
            rows, columns = place.grid
            yield "size", f"windows of {self.size} × {self.size} must divide the grid of {rows} × {columns} patches"


class Sinusoidal2dSpec(SinusoidalSpec):
    """Half of the features are sinusoids of the row, half of the column; any grid."""

    planar: ClassVar[bool] = True
    kind: Literal["sinusoidal-2d"] = "sinusoidal-2d"  # type: ignore[assignment]

    def refusals(self, *, width: int, causal: bool) -> Iterator[tuple[str, str]]:
        """Sines and cosines of two coordinates come in fours."""
        del causal
        if width % 4:
            yield "..width", f"sinusoidal-2d positions need a width that 4 divides, not {width}"


class Relative2dSpec(PositionSpec):
    """A learned bias per head and distance in rows and columns, shared by all layers of a stack; any grid."""

    per_head: ClassVar[bool] = True
    enters: ClassVar[Literal["embedding", "attention"]] = "attention"
    planar: ClassVar[bool] = True
    kind: Literal["relative-2d"] = "relative-2d"
    farthest: Annotated[int, Field(ge=1, le=1000)] = 7
    """Distances in rows and in columns are distinguished up to this one, k; those beyond share its bias."""


register(GridSpec, module="clearhead.attention.grid:GridAttention", cost="clearhead.costing.forms.grid:grid")
register(AxialSpec, module="clearhead.attention.grid:AxialAttention", cost="clearhead.costing.forms.grid:axial")
register(WindowSpec, module="clearhead.attention.grid:WindowAttention", cost="clearhead.costing.forms.grid:window")
register(
    Sinusoidal2dSpec,
    module="clearhead.positions.grid:GridSinusoids",
    cost="clearhead.costing.forms.position:sinusoidal",
)
register(Relative2dSpec, module="clearhead.positions.grid:GridBias", cost="clearhead.costing.forms.grid:relative_2d")
