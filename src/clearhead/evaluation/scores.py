"""What scoring a model gives."""

from dataclasses import asdict, dataclass, field
from typing import Any

from clearhead.evaluation.metrics import Metric


@dataclass(frozen=True)
class Scores:
    """What `clearhead eval` reports."""

    counts: dict[str, int]
    """How much was scored."""
    metrics: dict[str, Metric]
    """With their intervals."""
    values: dict[str, float] = field(default_factory=dict)
    """What has none."""

    def table(self) -> dict[str, Any]:
        """For JSON."""
        return {"metrics": {name: asdict(metric) for name, metric in self.metrics.items()}} | self.values | self.counts
