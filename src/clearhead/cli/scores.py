"""Printing scores."""

from clearhead.evaluation import Scores


def print_scores(scores: Scores) -> None:
    """One line per metric, with its 95 % interval; all but perplexity and loss in percent."""
    print(", ".join(f"{count:,} {name}" for name, count in scores.counts.items()))
    for name, metric in scores.metrics.items():
        note = f"  {metric.signature}" if metric.signature else ""
        print(f"{name:<15}{metric.value:7.2f}  [{metric.low:.2f}, {metric.high:.2f}]{note}")
    for name, value in scores.values.items():
        print(f"{name:<15}{value:7.2f}")
