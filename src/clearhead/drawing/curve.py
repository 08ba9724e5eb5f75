"""The curve of a training run: the loss, and what was measured on dev, over the steps.

Rows are those of a run's ``metrics.jsonl``: ``{"kind": "train", "step": 20, "loss": 2.7}`` and
``{"kind": "dev", "step": 250, "dev_line_error": 58.3, "dev_loss": 0.45}``.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from clearhead.drawing.figure import Lines, Series
from clearhead.drawing.html import figures_html, fragment
from clearhead.drawing.svg import side_by_side

POINTS = 200
"""The most points that a curve is drawn with: one for every two pixels of its panel."""
WIDE_RANGE = 30.0
"""A loss that falls by this factor is drawn on a logarithmic axis, where its end can still be read."""

Row = Mapping[str, Any]
_Points = list[tuple[float, float]]


def curve(rows: Iterable[Row], *, metric: str, rising: bool = False, steps: int | None = None) -> str:
    """HTML for a notebook: two panels, side by side or one below the other, as there is room.

    ``metric``: the name of what is measured on dev, such as ``"line_error"``.
    ``rising``: whether more of it is better.
    ``steps``: how many steps the run will have, so that a curve that still grows stays in its frame.
    """
    figures = panels(rows, metric=metric, rising=rising, steps=steps)
    if not figures:
        return fragment('<p class="soft">No step has been recorded yet.</p>')
    return fragment(figures_html(figures))


def curve_svg(rows: Iterable[Row], *, metric: str, rising: bool = False, steps: int | None = None) -> str:
    """The same panels side by side as one SVG, for a file; the arguments are those of ``curve``."""
    figures = panels(rows, metric=metric, rising=rising, steps=steps)
    if not figures:
        raise ValueError("no step has been recorded yet: there is no curve to draw")
    return side_by_side(figures)


def panels(rows: Iterable[Row], *, metric: str, rising: bool = False, steps: int | None = None) -> tuple[Lines, ...]:
    """The panels as data: the loss in training and on dev; the metric on dev. What was not measured is left out."""
    rows = list(rows)
    dev = [row for row in rows if row.get("kind") == "dev"]
    train_loss = _points((row for row in rows if row.get("kind") == "train"), "loss")
    dev_loss, measured = _points(dev, "dev_loss"), _points(dev, f"dev_{metric}")
    found = []
    if train_loss or dev_loss:
        found.append(_loss_panel(train_loss, dev_loss, steps))
    if measured and metric != "loss":
        best = _best(measured, dict(dev_loss), rising)
        found.append(_metric_panel(measured, best, metric.replace("_", " "), rising, steps))
    return tuple(found)


def _points(rows: Iterable[Row], name: str) -> _Points:
    """(step, value) of every row that has a finite value of this name, the steps rising."""
    known = {float(row["step"]): float(row[name]) for row in rows if isinstance(row.get(name), int | float)}
    return sorted((step, value) for step, value in known.items() if math.isfinite(value))


def _loss_panel(train: _Points, dev: _Points, steps: int | None) -> Lines:
    parts = [(name, points) for name, points in (("training", train), ("dev", dev)) if points]
    values = [value for _, points in parts for _, value in points]
    log = min(values) > 0 and max(values) / min(values) >= WIDE_RANGE
    return Lines(
        title=f"Loss after {parts[0][1][-1][0]:,.0f} steps",
        alt="; ".join(f"{name}: {_journey(points)}" for name, points in parts),
        x_label="steps",
        y_label="loss, logarithmic" if log else "loss",
        series=tuple(_series(name, _mean(points)) for name, points in parts),
        log_y=log,
        from_zero=not log,
        x_range=_range(steps),
    )


def _best(points: _Points, losses: Mapping[float, float], rising: bool) -> tuple[float, float]:
    """The evaluation that training keeps: of equal ones that with the lower loss, of those the first."""

    def rank(point: tuple[float, float]) -> tuple[float, float, float]:
        step, value = point
        return value if rising else -value, -losses.get(step, math.inf), -step

    return max(points, key=rank)


def _metric_panel(points: _Points, best: tuple[float, float], name: str, rising: bool, steps: int | None) -> Lines:
    step, value = best
    return Lines(
        title=f"{name[:1].upper()}{name[1:]} on dev, best {value:.2f} at step {step:,.0f}",
        alt=f"{name}: {_journey(points)}; best {value:.2f} at step {step:,.0f}",
        x_label="steps",
        y_label=f"{'higher' if rising else 'lower'} is better",
        series=(_series(f"{name} on dev", _thinned(points, keep=best)),),
        marks=((step, value, "best"),),
        x_range=_range(steps),
        from_zero=not rising,
    )


def _journey(points: _Points) -> str:
    (_, first), (step, last) = points[0], points[-1]
    return f"from {first:.4g} to {last:.4g} at step {step:,.0f}"


def _range(steps: int | None) -> tuple[float, float]:
    """From the first step, where nothing has been learned, as far as the run will go."""
    return (0.0, float(steps or 0))


def _series(name: str, points: _Points) -> Series:
    return Series(name, tuple(step for step, _ in points), tuple(value for _, value in points))


def _mean(points: _Points) -> _Points:
    """At most so many points as can be seen, each the mean of its neighbours; the last one as it is."""
    size = -(-len(points) // POINTS)
    if size == 1:
        return points
    groups = [points[start : start + size] for start in range(0, len(points) - 1, size)]
    means = [(group[-1][0], sum(value for _, value in group) / len(group)) for group in groups]
    return [point for point in means if point[0] < points[-1][0]] + points[-1:]


def _thinned(points: _Points, *, keep: tuple[float, float]) -> _Points:
    """At most about so many points as can be seen, the best and the last among them."""
    every = -(-len(points) // POINTS)
    return sorted({*points[::every], keep, points[-1]})
