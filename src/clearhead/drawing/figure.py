"""Figures as data, to be drawn as SVG or as text. Nothing here imports torch."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Series:
    """One line, or one set of bars."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True)
class Lines:
    """Curves over a common axis."""

    title: str
    alt: str
    """A text alternative: what the figure shows, in a sentence."""
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    log_x: bool = False
    log_y: bool = False
    marks: tuple[tuple[float, float, str], ...] = ()
    """Points (x, y) with labels."""
    x_range: tuple[float, float] | None = None
    """How far the common axis reaches at least; as far as the curves do if None."""
    from_zero: bool = False
    """Whether the axis of the values begins at 0, so that what is near it looks near it."""


@dataclass(frozen=True)
class Bars:
    """A bar chart of one or several series."""

    title: str
    alt: str
    y_label: str
    labels: tuple[str, ...]
    series: tuple[tuple[str, tuple[float, ...]], ...]
    """The series, each with one value for every label."""


@dataclass(frozen=True)
class Heat:
    """A heat map: the larger a value, the fuller its cell."""

    title: str
    alt: str
    x_label: str
    y_label: str
    values: tuple[tuple[float, ...], ...]
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    signed: bool = False
    """Whether values have both signs, around 0."""


Figure = Lines | Bars | Heat
