"""From statistics of lines to metrics with confidence intervals.

Shapes: n lines.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Weights = NDArray[np.float64]
"""How often each line counts, (n,): once, or as often as a bootstrap sample holds it."""


@dataclass(frozen=True)
class Metric:
    """A measured value and its 95 % interval.

    Args:
        value: Over all lines; percentages are between 0 and 100.
        low: Where the middle 95 % of the values of bootstrap samples begin; None if no interval was computed.
        high: Where they end.
        signature: What exactly was computed, for metrics that have conventions: sacrebleu's.
    """

    value: float
    low: float | None = None
    high: float | None = None
    signature: str = ""

    def __str__(self) -> str:
        interval = "" if self.low is None or self.high is None else f" [{self.low:.2f}, {self.high:.2f}]"
        return f"{self.value:.2f}{interval}"


@dataclass(frozen=True)
class Statistic:
    """What a metric's function returns: the metric of any sample of the lines.

    Args:
        value: From the weights of the lines, (n,), to the metric.
        signature: What exactly is computed, for metrics that have conventions.
    """

    value: Callable[[Weights], float]
    signature: str = ""


def ratio(part: ArrayLike, whole: ArrayLike, *, times: float = 100.0) -> Statistic:
    """The statistic ``times`` · Σ part / Σ whole of numbers given for each line, (n,); an empty whole counts as 1."""
    parts, wholes = np.asarray(part, dtype=np.float64), np.asarray(whole, dtype=np.float64)

    def value(weights: Weights) -> float:
        return times * float(weights @ parts) / (float(weights @ wholes) or 1.0)

    return Statistic(value)


def with_intervals(statistics: Mapping[str, Statistic], size: int, samples: int) -> dict[str, Metric]:
    """The value of each statistic over all lines, and the middle 95 % of its values over bootstrap samples.

    All statistics see the same samples, and every call draws the same ones.
    """
    rng, drawn = np.random.default_rng(1), np.empty((samples, len(statistics)))
    for row in drawn:
        weights = np.bincount(rng.integers(0, size, size), minlength=size).astype(np.float64)
        row[:] = [statistic.value(weights) for statistic in statistics.values()]
    everything = np.ones(size)
    ends = np.percentile(drawn, [2.5, 97.5], axis=0).T.tolist() if samples else [(None, None)] * len(statistics)
    return {
        name: Metric(statistic.value(everything), low, high, statistic.signature)
        for (name, statistic), (low, high) in zip(statistics.items(), ends, strict=True)
    }
