"""An axis of a figure: it maps values to places between 0 and 1, and has ticks."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from clearhead.drawing.figure import Lines

_SUPER = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Axis:
    """An axis from ``low`` to ``high``; logarithmic if ``log``."""

    low: float
    high: float
    log: bool
    ticks: tuple[float, ...]

    @classmethod
    def over(cls, values: Iterable[float], *, log: bool = False, from_zero: bool = False, room: float = 0.0) -> "Axis":
        """An axis for these values, with a margin at both ends; for a logarithmic one they must be positive."""
        known = sorted(set(values))
        low, high = min(known[0], 0.0) if from_zero else known[0], known[-1]
        if log:
            sizes = high <= 2**15 and all(value >= 1 and math.log2(value).is_integer() for value in known)
            grow = max((high / low) ** room, 1.05 if high == low else 1.0)
            return cls(low / grow, high * grow, True, _log_ticks(low / grow, high * grow, sizes=sizes))
        if high == low:
            low, high = (0.0, 1.0) if from_zero else (low - 0.5, high + 0.5)  # from zero, only 0 alone is left
        spare = room * (high - low)
        low, high = low if from_zero and low == 0 else low - spare, high + spare
        step = _nice((high - low) / 5)
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        return cls(low, high, False, tuple(index * step for index in range(first, last + 1)))

    def place(self, value: float) -> float:
        """The place of a value, from 0 at the low end to 1 at the high end."""
        if self.log:
            return math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def axes(figure: Lines) -> tuple[Axis, Axis]:
    """The common axis of the curves, and the axis of their values."""
    across = [value for series in figure.series for value in series.x] + list(figure.x_range or ())
    up = (value for series in figure.series for value in series.y)
    return Axis.over(across, log=figure.log_x), Axis.over(up, log=figure.log_y, from_zero=figure.from_zero, room=0.04)


def tick_text(value: float) -> str:
    """Format a value briefly.

    >>> [tick_text(value) for value in (0.25, 1000.0, 4096.0, 2_000_000.0, 1e-6)]
    ['0.25', '1,000', '4,096', '2M', '10⁻⁶']
    """
    size = abs(value)
    if size and (size < 1e-3 or size >= 1e9):
        power = math.floor(math.log10(size) + 1e-9)
        factor = value / 10.0**power
        head = "" if abs(factor - 1) < 1e-6 else f"{factor:g}·"
        return f"{head}10{str(power).translate(_SUPER)}"
    if size >= 1e4:
        return f"{value / 1e6:g}M" if size >= 1e6 else f"{value / 1e3:g}k"
    return f"{value:,.10g}"


def _log_ticks(low: float, high: float, *, sizes: bool) -> tuple[float, ...]:
    """Powers of two for sizes, else powers of ten, with 2 and 5 between them where there is room."""
    base = 2.0 if sizes else 10.0
    first, last = math.ceil(math.log(low, base) - 1e-9), math.floor(math.log(high, base) + 1e-9)
    step = max(1, math.ceil((last - first + 1) / 7))
    if sizes or last - first > 2:
        return tuple(base**power for power in range(first, last + 1, step))
    between = (factor * base**power for power in range(first - 1, last + 1) for factor in (1, 2, 5))
    return tuple(tick for tick in between if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9))


def _nice(step: float) -> float:
    """The next number of the form 1, 2, 2.5 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= step * (1 - 1e-9))
