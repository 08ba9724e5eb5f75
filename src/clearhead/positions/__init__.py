"""Positions: absolute ones, added to embeddings, and relative ones, which act inside attention as bias or rotation."""

from clearhead.positions.absolute import LearnedPosition, NoPosition, SinusoidalPosition, sinusoids
from clearhead.positions.base import (
    AbsolutePosition,
    DistanceBias,
    RelativePosition,
    Tables,
    Turns,
    by_distance,
    neighbouring_distances,
)
from clearhead.positions.branching import is_exporting, may_branch, right_padded
from clearhead.positions.grid import GridBias, GridSinusoids, grid_offset
from clearhead.positions.heads import scheme_for_heads
from clearhead.positions.numbering import last_positions, positions_of
from clearhead.positions.relative import AlibiBias, BucketBias, RotaryPosition, alibi_slopes, t5_bucket
from clearhead.positions.shaw import ShawPosition, shaw_index

__all__ = [
    "AbsolutePosition",
    "AlibiBias",
    "BucketBias",
    "DistanceBias",
    "GridBias",
    "GridSinusoids",
    "LearnedPosition",
    "NoPosition",
    "RelativePosition",
    "RotaryPosition",
    "ShawPosition",
    "SinusoidalPosition",
    "Tables",
    "Turns",
    "alibi_slopes",
    "by_distance",
    "grid_offset",
    "is_exporting",
    "last_positions",
    "may_branch",
    "neighbouring_distances",
    "positions_of",
    "right_padded",
    "scheme_for_heads",
    "shaw_index",
    "sinusoids",
    "t5_bucket",
]
