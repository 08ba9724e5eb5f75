"""Figures: well-formed SVG inside its frame with a text alternative, and letters for a terminal."""

import re
import xml.etree.ElementTree as ET

import pytest

from clearhead.drawing import svg, text
from clearhead.drawing.axis import Axis
from clearhead.lectures import Bars, Figure, Heat, Lines, Series, claims
from tests.lectures.outcomes import outcome

FIGURES: dict[str, Figure] = {
    "lines": Lines(
        "Growth <&>",
        "Two curves.",
        "n",
        "bytes",
        (Series("a", (1.0, 2.0), (3.0, 4.0)), Series("b", (1.0, 2.0), (9.0, 1.0))),
    ),
    "log": Lines("Log", "One.", "n", "y", (Series("", (64.0, 4096.0), (1e-6, 1e3)),), log_x=True, log_y=True),
    "marked": Lines(
        "Marks",
        "Two.",
        "n",
        "y",
        (Series("", (1.0, 9.0), (5.0, 7.0)),),
        marks=((1.0, 5.0, "first"), (9.0, 7.0, "last")),
    ),
    "flat": Lines("Flat", "Constant.", "n", "y", (Series("", (1.0, 2.0), (5.0, 5.0)),)),
    "bars": Bars(
        "Bars", "Some.", "weight", ("one", "a much longer label than that"), (("x", (1.0, -2.0)), ("y", (0.0, 3.0)))
    ),
    "heat": Heat("Heat", "A matrix.", "j", "i", ((0.0, 1.0), (0.5, 0.2)), ("a", "b"), ("c", "d")),
    "signed": Heat("Heat", "A matrix.", "j", "i", ((-1.0, 1.0),) * 40, signed=True),
}
SVG = "{http://www.w3.org/2000/svg}"


def check(figure: Figure, standalone: bool) -> None:
    drawn = svg(figure, standalone=standalone)
    root = ET.fromstring(drawn)
    assert root.get("role") == "img"
    assert root.findtext(f"{SVG}title") == figure.title
    assert root.findtext(f"{SVG}desc") == figure.alt
    assert "nan" not in drawn
    assert not re.search(r"(?:href|url\(|@import|<script)", drawn)
    _, _, width, height = (float(number) for number in str(root.get("viewBox")).split())
    for node in root.iter():
        for name, most in (("x", width), ("x1", width), ("x2", width), ("cx", width), ("cy", height), ("y", height)):
            place = node.get(name)
            assert place is None or -1 <= float(place) <= most + 1, (node.tag, name, place)
        if node.tag == f"{SVG}rect":
            assert float(str(node.get("width"))) >= 0
            assert float(str(node.get("x"))) + float(str(node.get("width"))) <= width + 1


@pytest.mark.parametrize("standalone", [True, False])
@pytest.mark.parametrize("name", FIGURES)
def test_svg(name: str, standalone: bool) -> None:
    check(FIGURES[name], standalone)


def test_the_figures_of_the_claims() -> None:
    for claim in claims():
        evidence = outcome(claim.id).evidence
        assert evidence is not None
        for figure in evidence.figures:
            check(figure, standalone=False)
            assert len(figure.alt) > 20


@pytest.mark.parametrize("name", FIGURES)
def test_text_fits_a_terminal(name: str) -> None:
    lines = text(FIGURES[name]).splitlines()
    assert lines[0] == FIGURES[name].title
    assert all(len(line) <= 78 for line in lines)


def test_text_shows_who_is_higher() -> None:
    lines = text(FIGURES["lines"]).splitlines()
    rows = [row for row, line in enumerate(lines) if ("●" in line and "│" in line) or ("┤" in line and "●" in line)]
    other = [row for row, line in enumerate(lines) if "○" in line and ("│" in line or "┤" in line)]
    assert min(other) < min(rows)  # the series that reaches 9 is drawn above the one that ends at 4


def test_an_axis_holds_its_values_and_ticks() -> None:
    for values, log in (
        ((0.0, 7.3), False),
        ((64.0, 4096.0), True),
        ((1e-9, 1e5), True),
        ((3.0, 3.0), True),
        ((-5.0, 5.0), False),
    ):
        axis = Axis.over(values, log=log)
        assert all(-1e-9 <= axis.place(value) <= 1 + 1e-9 for value in (*values, *axis.ticks))
        assert len(axis.ticks) <= 8
    assert Axis.over((64.0, 128.0, 512.0), log=True).ticks == (64, 128, 256, 512)
