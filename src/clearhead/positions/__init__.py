"""Where a token stands: tables that are added, biases and rotations that act inside attention."""

from clearhead.positions.absolute import LearnedPosition, NoPosition, SinusoidalPosition, sinusoids
from clearhead.positions.base import AbsolutePosition, RelativePosition
from clearhead.positions.grid import GridBias, GridSinusoids, grid_offset
from clearhead.positions.numbering import positions_of
from clearhead.positions.relative import BucketBias, RotaryPosition, t5_bucket

__all__ = [
    "AbsolutePosition",
    "BucketBias",
    "GridBias",
    "GridSinusoids",
    "LearnedPosition",
    "NoPosition",
    "RelativePosition",
    "RotaryPosition",
    "SinusoidalPosition",
    "grid_offset",
    "positions_of",
    "sinusoids",
    "t5_bucket",
]
