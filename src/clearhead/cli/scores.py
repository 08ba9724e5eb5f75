"""Printing scores."""

from clearhead.evaluation import Scores


def print_scores(scores: Scores) -> None:
    """One line per metric, in percent, with its 95 % interval."""
    print(f"{scores.sources:,} sources, {scores.references:,} references")
    for name, metric in scores.metrics.items():
        note = f"  {metric.signature}" if metric.signature else ""
        print(f"{name:<15}{metric.value:7.2f}  [{metric.low:.2f}, {metric.high:.2f}]{note}")
    print(f"{'token_accuracy':<15}{scores.token_accuracy:7.2f}")
    print(f"{'perplexity':<15}{scores.perplexity:7.2f}")
