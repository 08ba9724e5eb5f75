"""The curve of a run: what is drawn is what was measured, with no script, in light and in dark."""

import math
import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from clearhead.drawing import curve, curve_svg, svg
from clearhead.drawing.axis import axes
from clearhead.drawing.curve import POINTS, panels
from clearhead.drawing.figure import Lines

SVG = "{http://www.w3.org/2000/svg}"


def rows(steps: int = 400, every: int = 20, dev: int = 100) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for step in range(every, steps + 1, every):
        found.append({"kind": "train", "step": step, "epoch": 1, "loss": 3.0 - step / 200, "rate": 1e-3})
        if step % dev == 0:
            error = abs(step - 300) / 4 + 10  # the best evaluation is not the last one
            found.append({"kind": "dev", "step": step, "dev_line_error": error, "dev_loss": 2.0})
    return found


def points(figure: Lines, series: int = 0) -> list[tuple[float, float]]:
    return list(zip(figure.series[series].x, figure.series[series].y, strict=True))


def test_panels_hold_what_was_measured() -> None:
    loss, error = panels(rows(), metric="line_error")
    assert [series.name for series in loss.series] == ["training", "dev"]
    assert points(loss)[0] == (20.0, 2.9)
    assert points(loss, 1) == [(100.0, 2.0), (200.0, 2.0), (300.0, 2.0), (400.0, 2.0)]
    assert points(error) == [(100.0, 60.0), (200.0, 35.0), (300.0, 10.0), (400.0, 35.0)]
    assert error.marks == ((300.0, 10.0, "best"),)
    assert "best 10.00 at step 300" in error.title
    assert "from 60 to 35 at step 400" in error.alt


def test_more_may_be_better() -> None:
    _, accuracy = panels(rows(), metric="line_error", rising=True)
    assert accuracy.marks[0][:2] == (100.0, 60.0)
    assert accuracy.y_label == "higher is better"


def test_of_equal_values_the_one_with_the_lower_loss_is_the_best_as_in_training() -> None:
    tied = [
        {"kind": "dev", "step": step, "dev_bleu": bleu, "dev_loss": loss}
        for step, bleu, loss in ((10, 5.0, 0.3), (20, 5.0, 0.1), (30, 5.0, 0.1), (40, 4.0, 0.01))
    ]
    _, panel = panels(tied, metric="bleu", rising=True)
    assert panel.marks[0][0] == 20.0


def test_of_equal_values_the_first_is_the_best() -> None:
    flat = [{"kind": "dev", "step": step, "dev_bleu": 5.0} for step in (10, 20, 30)]
    for rising in (True, False):
        (panel,) = panels(flat, metric="bleu", rising=rising)
        assert panel.marks[0][0] == 10.0


def test_a_growing_curve_stays_in_its_frame() -> None:
    early, late = (panels(rows(steps), metric="line_error", steps=4000)[0] for steps in (100, 400))
    assert axes(early)[0] == axes(late)[0]
    assert axes(early)[0].high == 4000.0
    assert axes(panels(rows(400), metric="line_error")[0])[0].high == 400.0


def test_a_long_run_is_thinned_but_keeps_its_end_and_its_best() -> None:
    many = rows(100_000, every=10, dev=100)
    loss, error = panels(many, metric="line_error")
    assert all(len(series.x) <= POINTS + 2 for figure in (loss, error) for series in figure.series)
    assert points(loss)[-1] == (100_000.0, 3.0 - 500.0)
    assert (300.0, 10.0) in points(error)
    assert points(error)[-1][0] == 100_000.0
    assert all(list(series.x) == sorted(set(series.x)) for figure in (loss, error) for series in figure.series)
    # a mean of neighbours, not one of them
    first = points(loss)[0]
    size = round(first[0] / 10)
    assert first[1] == pytest.approx(sum(3.0 - 10 * k / 200 for k in range(1, size + 1)) / size)
    assert len(curve(many, metric="line_error")) < 30_000


def test_a_loss_that_falls_far_is_drawn_on_a_logarithmic_axis() -> None:
    steep = [{"kind": "train", "step": step, "loss": 4.0 * math.exp(-step / 50)} for step in range(10, 300, 10)]
    (panel,) = panels(steep, metric="line_error")
    assert panel.log_y
    assert panel.y_label == "loss, logarithmic"
    assert not panels(rows(), metric="line_error")[0].log_y  # its last value is not positive there


def test_values_that_are_no_numbers_are_left_out() -> None:
    odd = [*rows(), {"kind": "train", "step": 500, "loss": math.nan}, {"kind": "dev", "step": 500, "dev_loss": None}]
    assert panels(odd, metric="line_error") == panels(rows(), metric="line_error")


def test_nothing_measured_yet() -> None:
    assert panels([], metric="line_error") == ()
    assert "No step has been recorded yet" in curve([], metric="line_error")
    with pytest.raises(ValueError, match="no curve to draw"):
        curve_svg([], metric="line_error")
    one = curve(rows(20), metric="line_error")
    assert one.count("<figure>") == 1  # dev was not evaluated yet


@pytest.mark.parametrize("metric", ["line_error", "<script>alert(1)</script>"])
def test_the_html_is_whole_escaped_and_has_no_script(metric: str) -> None:
    named = [
        {(f"dev_{metric}" if key == "dev_line_error" else key): value for key, value in row.items()} for row in rows()
    ]
    for drawn in (curve(named, metric=metric), curve_svg(named, metric=metric)):
        ET.fromstring(drawn)
        assert not re.search(r"<script|https?://(?!www\.w3\.org/2000/svg)|url\(|@import| on\w+=", drawn)


def test_a_file_holds_both_panels_side_by_side() -> None:
    root = ET.fromstring(curve_svg(rows(), metric="line_error"))
    one = ET.fromstring(svg(panels(rows(), metric="line_error")[0], standalone=True))
    assert float(str(root.get("width"))) == 2 * float(str(one.get("width")))
    titles = [node.text for node in root.iter(f"{SVG}text") if node.get("class") == "title"]
    assert titles == [figure.title for figure in panels(rows(), metric="line_error")]
    assert len(list(root.iter(f"{SVG}polyline"))) == 3


def test_colours_follow_the_theme_of_the_notebook() -> None:
    drawn = curve(rows(), metric="line_error")
    assert "--plot-ink: currentColor" in drawn
    for host in ('[data-jp-theme-light="false"]', ".vscode-dark", 'html[theme="dark"]'):
        assert host in drawn
