"""Figures that show themselves: in a notebook as SVG, printed with letters."""

from dataclasses import dataclass

from clearhead.drawing.figure import Figure
from clearhead.drawing.html import figures_html, fragment
from clearhead.drawing.svg import side_by_side
from clearhead.drawing.text import text


@dataclass(frozen=True, repr=False)
class Drawing:
    """Figures side by side, as ``draw`` returns them."""

    figures: tuple[Figure, ...]

    def svg(self) -> str:
        """All of them as one SVG, for a file."""
        return side_by_side(self.figures)

    def __repr__(self) -> str:
        return f"Drawing({'; '.join(figure.title for figure in self.figures)})"

    def __str__(self) -> str:
        return "\n\n".join(map(text, self.figures))

    def _repr_html_(self) -> str:
        return fragment(figures_html(self.figures))


def draw(*figures: Figure) -> Drawing:
    """Figures as a picture: a notebook shows it, ``print`` writes it with letters, ``svg()`` is for a file.

    >>> from clearhead.drawing import Bars, draw
    >>> print(draw(Bars("Votes", "A has more votes.", "votes", ("A", "B"), (("", (4.0, 2.0)),))))
    Votes
    A ████████████████████████████████████ 4
    B ██████████████████ 2
      votes
    """
    if not figures:
        raise TypeError("draw() needs a figure")
    return Drawing(figures)
