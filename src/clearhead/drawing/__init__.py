"""Drawing figures: as SVG for a page or a file, as HTML for a notebook, and with letters for a terminal."""

from clearhead.drawing.curve import curve, curve_svg
from clearhead.drawing.figure import Bars, Figure, Heat, Lines, Series
from clearhead.drawing.look_figure import look_svg
from clearhead.drawing.look_text import look_lines
from clearhead.drawing.picture import Drawing, draw
from clearhead.drawing.svg import STYLE, svg
from clearhead.drawing.text import text

__all__ = [
    "STYLE",
    "Bars",
    "Drawing",
    "Figure",
    "Heat",
    "Lines",
    "Series",
    "curve",
    "curve_svg",
    "draw",
    "look_lines",
    "look_svg",
    "svg",
    "text",
]
