"""Figures as SVG: without scripts and external references, for light and dark pages, with a text alternative.

Colours are CSS classes, so that a page defines them once. Series also differ in dashes and marks, so that they can be
distinguished without colours.
"""

from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files

from clearhead.drawing.axis import Axis, axes, tick_text
from clearhead.drawing.figure import Bars, Figure, Heat, Lines

WIDTH = 460
LEFT, RIGHT, TOP, BOTTOM = 62, 16, 12, 44
LETTER = 6.6
"""Approximate width of a letter at 12 pixels."""
DASHES = ("", "7 4", "2 4", "9 4 2 4", "1 3")
STYLE = (files("clearhead.drawing") / "plot.css").read_text(encoding="utf-8")
_PAPER = f"<style>{STYLE}\nsvg {{ background: var(--plot-paper); }}</style>"


def svg(figure: Figure, *, standalone: bool = False) -> str:
    """Draw a figure as an ``<svg>`` element; with ``standalone``, it has its own style and title, for a file."""
    height, body = _drawn(figure, titled=standalone)
    size = f'width="{WIDTH}" height="{height}"' if standalone else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plot" role="img" viewBox="0 0 {WIDTH} {height}" {size}>'
        f"<title>{escape(figure.title)}</title><desc>{escape(figure.alt)}</desc>"
        f"{_PAPER if standalone else ''}{body}</svg>"
    )


def side_by_side(figures: Sequence[Figure]) -> str:
    """Figures from left to right in one ``<svg>`` element with its own style and titles, as a file needs them."""
    drawn = [_drawn(figure, titled=True) for figure in figures]
    width, height = len(drawn) * WIDTH, max(height for height, _ in drawn)
    title, alt = (" · ".join(words) for words in zip(*((one.title, one.alt) for one in figures), strict=True))
    body = "".join(f'<g transform="translate({index * WIDTH} 0)">{one}</g>' for index, (_, one) in enumerate(drawn))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plot" role="img" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}"><title>{escape(title)}</title><desc>{escape(alt)}</desc>'
        f"{_PAPER}{body}</svg>"
    )


def _drawn(figure: Figure, *, titled: bool) -> tuple[int, str]:
    """The figure's height and its elements, below its title if it has one."""
    if isinstance(figure, Lines):
        height, body = _lines(figure)
    elif isinstance(figure, Bars):
        height, body = _bars(figure)
    else:
        height, body = _heat(figure)
    titles = _wrapped(figure.title, int((WIDTH - 20) / LETTER)) if titled else []
    up = 18 * len(titles) + 6 if titles else 0
    parts = [
        f'<text class="title" x="10" y="{18 * (index + 1)}">{escape(line)}</text>' for index, line in enumerate(titles)
    ]
    return height + up, "".join([*parts, f'<g transform="translate(0 {up})">{"".join(body)}</g>'])


def _lines(figure: Lines) -> tuple[int, list[str]]:
    legend, down = _legend([series.name for series in figure.series])
    x, y = axes(figure)
    top, height = TOP + down, 200
    body = [*legend, *_frame(figure, x, y, top=top, height=height)]
    for index, series in enumerate(figure.series):
        points = [
            (LEFT + x.place(a) * (WIDTH - LEFT - RIGHT), top + height - y.place(b) * height)
            for a, b in zip(series.x, series.y, strict=True)
        ]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        body.append(f'<polyline class="line s{index % 5}"{_dash(index)} points="{path}"/>')
        if len(points) <= 16:
            body += [f'<circle class="s{index % 5}" cx="{a:.1f}" cy="{b:.1f}" r="2.6"/>' for a, b in points]
    for a, b, word in figure.marks:
        at, up = LEFT + x.place(a) * (WIDTH - LEFT - RIGHT), top + height - y.place(b) * height
        anchor, beside = ("end", at - 8) if at + 10 + len(word) * LETTER > WIDTH else ("start", at + 8)
        below = up + 16 if up + 20 < top + height else up - 9  # under the frame stand the numbers of the axis
        body.append(f'<circle class="mark" cx="{at:.1f}" cy="{up:.1f}" r="3.5"/>')
        body.append(f'<text class="{anchor}" x="{beside:.1f}" y="{below:.1f}">{escape(word)}</text>')
    return top + height + BOTTOM, body


def _frame(figure: Lines, x: Axis, y: Axis, *, top: int, height: int) -> Iterator[str]:
    wide = WIDTH - LEFT - RIGHT
    for value in y.ticks:
        at = top + height - y.place(value) * height
        yield f'<line class="grid" x1="{LEFT}" x2="{LEFT + wide}" y1="{at:.1f}" y2="{at:.1f}"/>'
        yield f'<text class="end small" x="{LEFT - 6}" y="{at + 3.5:.1f}">{tick_text(value)}</text>'
    for value in x.ticks:
        at = LEFT + x.place(value) * wide
        yield f'<line class="axis" x1="{at:.1f}" x2="{at:.1f}" y1="{top + height}" y2="{top + height + 4}"/>'
        yield f'<text class="middle small" x="{at:.1f}" y="{top + height + 16}">{tick_text(value)}</text>'
    yield f'<line class="axis" x1="{LEFT}" x2="{LEFT + wide}" y1="{top + height}" y2="{top + height}"/>'
    yield f'<text class="middle" x="{LEFT + wide / 2}" y="{top + height + 36}">{escape(figure.x_label)}</text>'
    yield _upright(figure.y_label, top + height / 2)


def _upright(label: str, middle: float) -> str:
    return f'<text class="middle" transform="translate(13 {middle:.1f}) rotate(-90)">{escape(label)}</text>'


def _legend(names: Sequence[str], marks: bool = True) -> tuple[list[str], int]:
    """The legend, in as many rows as needed, and its height."""
    if len(names) == 1 and not names[0]:
        return [], 0
    parts, x, y = [], LEFT, TOP + 6
    for index, name in enumerate(names):
        width = 30 + len(name) * LETTER
        if x > LEFT and x + width > WIDTH - 4:
            x, y = LEFT, y + 18
        if marks:
            parts.append(f'<line class="line s{index % 5}"{_dash(index)} x1="{x}" x2="{x + 22}" y1="{y}" y2="{y}"/>')
        else:
            parts.append(f'<rect class="bar s{index % 5}" x="{x + 6}" y="{y - 5}" width="10" height="10"/>')
        parts.append(f'<text x="{x + 27}" y="{y + 4}">{escape(name)}</text>')
        x += int(width) + 14
    return parts, y + 8


def _dash(index: int) -> str:
    dashes = DASHES[index % len(DASHES)]
    return f' stroke-dasharray="{dashes}"' if dashes else ""


def _bars(figure: Bars) -> tuple[int, list[str]]:
    """Horizontal bars, as labels may be long."""
    legend, down = _legend([name for name, _ in figure.series], marks=False)
    top = TOP + down
    longest = max(map(len, figure.labels))
    left = min(int(longest * LETTER) + 14, WIDTH // 2)
    right = 62  # the value is written after its bar
    x = Axis.over((value for _, values in figure.series for value in values), from_zero=True)
    thick = 18 if len(figure.series) == 1 else 13
    gap, wide = 10, WIDTH - left - right
    body, at = list(legend), float(top)
    zero = left + x.place(0.0) * wide
    for place, label in enumerate(figure.labels):
        group = thick * len(figure.series)
        lines = _wrapped(label, int((left - 10) / LETTER))
        for row, line in enumerate(lines):
            offset = at + group / 2 + 4 + 13 * (row - (len(lines) - 1) / 2)
            body.append(f'<text class="end" x="{left - 8}" y="{offset:.1f}">{escape(line)}</text>')
        for index, (_, values) in enumerate(figure.series):
            end = left + x.place(values[place]) * wide
            start, width = min(zero, end), abs(end - zero)
            y = at + index * thick
            body.append(
                f'<rect class="bar s{index % 5}" x="{start:.1f}" y="{y:.1f}" width="{width:.1f}" height="{thick - 2}"/>'
            )
            body.append(
                f'<text class="small" x="{max(end, zero) + 5:.1f}" y="{y + thick / 2 + 3:.1f}">'
                f"{_short(values[place])}</text>"
            )
        at += group + gap
    body.append(f'<line class="axis" x1="{zero:.1f}" x2="{zero:.1f}" y1="{top - 3}" y2="{at - gap + 3:.1f}"/>')
    body.append(f'<text class="middle" x="{left + wide / 2:.1f}" y="{at + 12:.1f}">{escape(figure.y_label)}</text>')
    return int(at + 22), body


def _heat(figure: Heat) -> tuple[int, list[str]]:
    rows, columns = len(figure.values), len(figure.values[0])
    longest = max((len(row) for row in figure.rows), default=0)
    left = max(40, int(longest * LETTER) + 30)
    wide = WIDTH - left - RIGHT
    side = min(wide / columns, 34.0)
    tall = side if rows <= 24 else 220 / rows
    top = 26 if figure.columns else 10
    most = max(abs(value) for row in figure.values for value in row) or 1.0
    body = []
    for i, row in enumerate(figure.values):
        for j, value in enumerate(row):
            kind = "cold" if figure.signed and value < 0 else "heat"
            body.append(
                f'<rect class="{kind}" x="{left + j * side:.1f}" y="{top + i * tall:.1f}" width="{side:.1f}" '
                f'height="{tall:.1f}" fill-opacity="{abs(value) / most:.3f}"/>'
            )
    edge = f'width="{columns * side:.1f}" height="{rows * tall:.1f}"'
    body.append(f'<rect class="edge" x="{left}" y="{top}" {edge}/>')
    for i, name in enumerate(figure.rows):
        y = top + (i + 0.5) * tall + 4
        body.append(f'<text class="end" x="{left - 5}" y="{y:.1f}">{escape(name)}</text>')
    for j, name in enumerate(figure.columns):
        x = left + (j + 0.5) * side
        body.append(f'<text class="middle small" x="{x:.1f}" y="{top - 6}">{escape(name)}</text>')
    bottom = top + rows * tall
    label = f"{figure.x_label}" + ("" if figure.signed else f"   (full: {_short(most)})")
    body.append(
        f'<text class="middle" x="{left + columns * side / 2:.1f}" y="{bottom + 20:.1f}">{escape(label)}</text>'
    )
    body.append(_upright(figure.y_label, top + rows * tall / 2))
    return int(bottom + 30), body


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _wrapped(text: str, width: int) -> list[str]:
    """Break a text into lines of at most this many letters."""
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines or [""]
