"""Drawing figures: as SVG for a page or a file, and with letters for a terminal."""

from clearhead.drawing.svg import STYLE, svg
from clearhead.drawing.text import text

__all__ = ["STYLE", "svg", "text"]
