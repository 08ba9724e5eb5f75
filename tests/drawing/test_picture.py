"""Figures that show themselves."""

import xml.etree.ElementTree as ET

import pytest

from clearhead.drawing import Bars, Heat, draw
from tests.drawing.test_html import ATTACK, check, texts

BARS = Bars(f"Votes {ATTACK}", "A has more votes.", "votes", ("A", "B"), (("", (4.0, 2.0)),))
HEAT = Heat("Weights", "Each row looks at itself.", "key", "query", ((1.0, 0.0), (0.0, 1.0)))


def test_a_picture_shows_itself() -> None:
    picture = draw(BARS, HEAT)
    root = check(picture._repr_html_())
    assert texts(root, "figcaption") == [BARS.title, HEAT.title]
    assert repr(picture) == f"Drawing({BARS.title}; Weights)"
    assert "█" in str(picture)
    ET.fromstring(picture.svg())


def test_nothing_to_draw() -> None:
    with pytest.raises(TypeError, match="needs a figure"):
        draw()
