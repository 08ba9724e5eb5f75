"""How good a model is: metrics of its answers, with intervals."""

from clearhead.evaluation.examples import Found, read_examples
from clearhead.evaluation.judges import dev_scores, evaluate, group, judge_of
from clearhead.evaluation.kept import kept_scores, scores_of_run
from clearhead.evaluation.metrics import Metric, edit_distance, line_errors, macro_f1, score, symbol_errors
from clearhead.evaluation.scores import Scores

__all__ = [
    "Found",
    "Metric",
    "Scores",
    "dev_scores",
    "edit_distance",
    "evaluate",
    "group",
    "judge_of",
    "kept_scores",
    "line_errors",
    "macro_f1",
    "read_examples",
    "score",
    "scores_of_run",
    "symbol_errors",
]
