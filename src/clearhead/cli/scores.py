"""Printing scores."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    import clearhead


def print_scores(scores: "clearhead.Scores") -> None:
    """What matters most for the data, one line per metric; then, dimmed, which others there are."""
    for line in score_lines(scores):
        print(line)
    if scores.rest:
        note = f"clearhead eval --json also gives {', '.join(scores.rest)}"
        Console().print(note, style="dim", markup=False, highlight=False, soft_wrap=True)


def score_lines(scores: "clearhead.Scores") -> Iterator[str]:
    """How much was scored, then the main metrics with their 95 % intervals; all but perplexity and loss in percent."""
    yield ", ".join(f"{count:,} {name}" for name, count in scores.counts.items())
    for name in scores.main:
        metric = scores[name]
        interval = "" if metric.low is None or metric.high is None else f"  [{metric.low:.2f}, {metric.high:.2f}]"
        note = f"  {metric.signature}" if metric.signature else ""
        yield f"{name:<15}{metric.value:7.2f}{interval}{note}"
