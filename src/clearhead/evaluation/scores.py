"""What scoring a model gives."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clearhead.errors import did_you_mean
from clearhead.evaluation.lines import ScoredLine
from clearhead.evaluation.metrics import Metric
from clearhead.evaluation.page import scores_html
from clearhead.files import write_whole


@dataclass(frozen=True, repr=False)
class Scores(Mapping[str, Metric]):
    """How good a model is on some examples: a mapping from the names of metrics to their values and intervals.

    scores = clearhead.evaluate(model, "test.tsv")
    scores["line_error"].value, scores["line_error"].low, scores["line_error"].high
    scores.worst(20)

    Two are equal if their metrics and counts are; the lines are not compared.

    Args:
        metrics: Each metric by name, the main ones first.
        counts: How much was scored: sources and references, lines and tokens, texts and classes.
        main: The metrics that matter most for these data, which are shown first.
        rest: The other metrics that apply to them, measured or not.
        lines: What the model did with each line, if it is known: a file of scores does not keep it.
    """

    metrics: Mapping[str, Metric]
    counts: dict[str, int]
    main: tuple[str, ...] = ()
    rest: tuple[str, ...] = ()
    lines: Sequence[ScoredLine] = field(default=(), compare=False)

    def __getitem__(self, name: str) -> Metric:
        if name in self.metrics:
            return self.metrics[name]
        if name in self.rest:
            raise KeyError(f"{name} was not measured: give it to evaluate(…, names=[…])")
        raise KeyError(f"no metric {name!r}{did_you_mean(str(name), list(self.metrics))} ({', '.join(self.metrics)})")

    def __contains__(self, name: object) -> bool:
        return name in self.metrics

    def __iter__(self) -> Iterator[str]:
        return iter(self.metrics)

    def __len__(self) -> int:
        return len(self.metrics)

    def worst(self, count: int = 20) -> list[ScoredLine]:
        """The lines with the largest errors, the worst first, those of one error in their order; right ones never."""
        wrong = [line for line in self.lines if not line.right]
        return sorted(wrong, key=lambda line: -line.error)[:count]

    def table(self) -> dict[str, Any]:
        """For JSON: the metrics, each with value, low, high and signature, and the counts beside them."""
        return {"metrics": {name: _table(metric) for name, metric in self.metrics.items()}} | dict(self.counts)

    @classmethod
    def from_table(cls, table: Mapping[str, Any], main: Sequence[str] = ()) -> "Scores":
        """The scores that ``table`` was made from, without their lines."""
        metrics = {name: _metric(**row) for name, row in table["metrics"].items()}
        counts = {name: count for name, count in table.items() if name != "metrics"}
        shown = tuple(name for name in main if name in metrics) or tuple(metrics)
        return cls(metrics, counts, shown, tuple(name for name in metrics if name not in shown))

    def save(self, path: str | Path) -> None:
        """Write the metrics and counts as JSON; the file is written whole or not at all."""
        write_whole(Path(path), (json.dumps(self.table(), indent=1, ensure_ascii=False) + "\n").encode())

    def __repr__(self) -> str:
        found = ", ".join(f"{name} {self.metrics[name]}" for name in self.main)
        lines, count = next(iter(self.counts.items()), ("lines", len(self.lines)))
        return f"{found} on {count:,} {lines}"

    def _repr_html_(self) -> str:
        wrong = sum(not line.right for line in self.lines)
        return scores_html(self.metrics, self.counts, self.worst(20), wrong)


def _table(metric: Metric) -> dict[str, Any]:
    """JSON has no NaN and no infinity: null stands for them, and for an interval that was not computed."""
    numbers = {"value": metric.value, "low": metric.low, "high": metric.high}
    finite = {name: value if value is not None and math.isfinite(value) else None for name, value in numbers.items()}
    return finite | {"signature": metric.signature}


def _metric(value: float | None, low: float | None, high: float | None, signature: str) -> Metric:
    return Metric(math.nan if value is None else value, low, high, signature)
