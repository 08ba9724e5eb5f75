"""Figures as text, for a terminal."""

from collections.abc import Iterator
from itertools import pairwise

from clearhead.drawing.axis import axes, tick_text
from clearhead.drawing.figure import Bars, Figure, Heat, Lines

GLYPHS = "●○×+◆"
SHADES = " ░▒▓█"
COLUMNS, ROWS = 56, 12


def text(figure: Figure) -> str:
    """Draw a figure as lines of text."""
    draw = _lines if isinstance(figure, Lines) else _bars if isinstance(figure, Bars) else _heat
    return "\n".join(line.rstrip() for line in (figure.title, *draw(figure)))  # type: ignore[arg-type]


def _lines(figure: Lines) -> Iterator[str]:
    x, y = axes(figure)
    canvas = [[" "] * COLUMNS for _ in range(ROWS)]
    for glyph, series in reversed(list(zip(GLYPHS, figure.series, strict=False))):
        places = [(x.place(a), y.place(b)) for a, b in zip(series.x, series.y, strict=True)]
        for column in range(COLUMNS):
            height = _at(places, column / (COLUMNS - 1))
            if height is not None:
                canvas[ROWS - 1 - round(height * (ROWS - 1))][column] = glyph
    labels = {ROWS - 1 - round(y.place(value) * (ROWS - 1)): tick_text(value) for value in y.ticks}
    margin = max(map(len, labels.values()))
    yield f"{'':>{margin}} {figure.y_label}"
    for row, line in enumerate(canvas):
        yield f"{labels.get(row, ''):>{margin}} {'┤' if row in labels else '│'}{''.join(line)}"
    yield f"{'':>{margin}} └{'─' * COLUMNS}"
    below = [" "] * (COLUMNS + 8)
    for value in x.ticks:
        name = tick_text(value)
        start = max(0, round(x.place(value) * (COLUMNS - 1)) - len(name) // 2)
        if not any(letter != " " for letter in below[max(0, start - 1) : start + len(name) + 1]):
            below[start : start + len(name)] = name
    yield f"{'':>{margin}}  {''.join(below)}"
    yield f"{'':>{margin}}  {figure.x_label}"
    names = [f"{glyph} {series.name}" for glyph, series in zip(GLYPHS, figure.series, strict=False) if series.name]
    if names:
        yield f"{'':>{margin}}  {'   '.join(names)}"


def _at(places: list[tuple[float, float]], x: float) -> float | None:
    """The interpolated value of a curve at x; None outside of its points."""
    slack = 0.5 / (COLUMNS - 1)
    if not places[0][0] - slack <= x <= places[-1][0] + slack:
        return None
    for (x0, y0), (x1, y1) in pairwise(places):
        if x <= x1:
            share = min(1.0, max(0.0, (x - x0) / (x1 - x0) if x1 > x0 else 0.0))
            return y0 + share * (y1 - y0)
    return places[-1][1]


def _bars(figure: Bars) -> Iterator[str]:
    most = max(abs(value) for _, values in figure.series for value in values) or 1.0
    margin = max(map(len, figure.labels))
    for place, label in enumerate(figure.labels):
        for index, (name, values) in enumerate(figure.series):
            bar = ("█▒░▓"[index % 4]) * round(36 * abs(values[place]) / most)
            beside = f"  {name}" if len(figure.series) > 1 and place == 0 else ""
            yield f"{label if index == 0 else '':>{margin}} {bar} {values[place]:.4g}{beside}"
    yield f"{'':>{margin}} {figure.y_label}"


def _heat(figure: Heat) -> Iterator[str]:
    most = max(abs(value) for row in figure.values for value in row) or 1.0
    rows = figure.rows or tuple(str(index) for index in range(len(figure.values)))
    margin = max(map(len, rows))
    # more rows or columns than a terminal shows well: every second, third … of them
    down, across = -(-len(figure.values) // 24), -(-len(figure.values[0]) // 32)
    cell = max(2, max((len(name) + 1 for name in figure.columns), default=0))
    ends = f"█ is {most:.3g}, empty {-most:.3g}" if figure.signed else f"█ is {most:.3g}"
    if figure.columns:
        yield f"{'':>{margin}} {''.join(f'{name:^{cell}}' for name in figure.columns[::across])}"
    for name, row in list(zip(rows, figure.values, strict=True))[::down]:
        # values of both signs: the lowest is empty, 0 is half full
        full = ((value + most) / 2 if figure.signed else value for value in row[::across])
        shades = (SHADES[round(value / most * (len(SHADES) - 1))] for value in full)
        yield f"{name:>{margin}} {''.join(shade * cell for shade in shades)}"
    yield f"{'':>{margin}} {figure.y_label} down, {figure.x_label} across; {ends}"
