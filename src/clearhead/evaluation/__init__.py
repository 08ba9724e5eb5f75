"""How good a model is: metrics of its answers, with intervals."""

from clearhead.evaluation.evaluate import Scores, dev_scores, evaluate, group, usual_metric
from clearhead.evaluation.metrics import Metric, edit_distance, line_errors, score, symbol_errors

__all__ = [
    "Metric",
    "Scores",
    "dev_scores",
    "edit_distance",
    "evaluate",
    "group",
    "line_errors",
    "score",
    "symbol_errors",
    "usual_metric",
]
