"""The line that follows a run: step, share and time left first, nothing cut in the middle, at any width."""

import re
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from clearhead.cli.progress import ProgressLine
from tests.cli.terminal import at_terminal
from tests.training.toy import SMALL, write_pairs

LONG = ProgressLine(
    98_765,
    123_456,
    seconds_left=4_985.0,
    loss=1.2345,
    speed=12_345.6,
    dev={"line_error": 34.56, "symbol_error": 12.34, "loss": 1.07},
)


def rendered(standing: ProgressLine, width: int) -> str:
    stream = StringIO()
    Console(file=stream, width=width, force_terminal=True, color_system=None).print(standing)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (5, "80 %"),
        (15, "98,765/123,456"),
        (20, "step 98,765/123,456"),
        (30, "step 98,765/123,456  80 %"),
        (60, "step 98,765/123,456  80 %  1:23:05 left  loss 1.234"),
        (80, "step 98,765/123,456  80 %  1:23:05 left  loss 1.234  12,346 tokens/s"),
        (
            120,
            "step 98,765/123,456  80 %  1:23:05 left  loss 1.234  12,346 tokens/s  "
            "dev: line_error 34.56  symbol_error 12.34",
        ),
        (
            160,
            "step 98,765/123,456  80 %  1:23:05 left  loss 1.234  12,346 tokens/s  "
            "dev: line_error 34.56  symbol_error 12.34  loss 1.07",
        ),
    ],
)
def test_what_is_most_important_comes_first_and_nothing_is_cut(width: int, expected: str) -> None:
    assert rendered(LONG, width).rstrip("\n") == expected
    assert len(expected) <= width


def test_every_width_shows_whole_parts() -> None:
    parts = set(re.split("  +", LONG.line(1000)))
    for width in range(25, 200):
        assert set(re.split("  +", LONG.line(width))) <= parts


def test_before_the_first_line_of_the_log_there_is_no_time_left() -> None:
    assert ProgressLine(0, 600).line(80) == "step 0/600  0 %"


def test_a_terminal_of_80_columns_shows_step_share_and_time_left(tmp_path: Path) -> None:
    """The real thing under a pty: stderr is a terminal, stdout a file, which gets the scores."""
    pairs = write_pairs(tmp_path / "pairs.tsv", count=200)
    words = [
        "train",
        str(pairs),
        "-o",
        str(tmp_path / "run"),
        "--max-steps",
        "60",
        "training.evaluate_every=30",
        *SMALL,
    ]
    shown = at_terminal([*words, "decoding.beam_size=1"], out=tmp_path / "out")
    assert shown.code == 0, shown
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "\n", shown.terminal)
    lines = [line.rstrip() for line in re.split(r"[\r\n]+", text)]
    live = [line for line in lines if line.startswith("step ") and " left" in line]
    assert live
    for line in live:
        assert re.match(r"step \d+/60  \d+ %  \d+:\d\d left(  loss \d+\.\d+)?(  [\d,]+ tokens/s)?", line), line
        assert len(line) <= 80
    assert "line_error" in (tmp_path / "out").read_text()
