"""Printing scores."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import clearhead


def print_scores(scores: "clearhead.Scores") -> None:
    """One line per metric, with its 95 % interval; all but perplexity and loss in percent."""
    for line in score_lines(scores):
        print(line)


def score_lines(scores: "clearhead.Scores") -> Iterator[str]:
    """The lines that ``print_scores`` prints."""
    yield ", ".join(f"{count:,} {name}" for name, count in scores.counts.items())
    for name, metric in scores.metrics.items():
        note = f"  {metric.signature}" if metric.signature else ""
        yield f"{name:<15}{metric.value:7.2f}  [{metric.low:.2f}, {metric.high:.2f}]{note}"
    for name, value in scores.values.items():
        yield f"{name:<15}{value:7.2f}"
