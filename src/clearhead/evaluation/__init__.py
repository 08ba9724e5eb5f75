"""How good a model is: metrics of its answers, with intervals."""

from clearhead.evaluation.comparing import edit_distance, line_errors, symbol_errors
from clearhead.evaluation.evaluating import Names, dev_scores, evaluate, measure, score
from clearhead.evaluation.examples import Found, read_examples
from clearhead.evaluation.heads import HeadStudy, StudiedHead
from clearhead.evaluation.judges import group, judge_of
from clearhead.evaluation.kept import kept_scores, scores_of_run
from clearhead.evaluation.lines import ScoredLine
from clearhead.evaluation.metrics import Metric, Statistic, ratio
from clearhead.evaluation.results import LabelResults, Likelihood, PairResults, Results, TextResults
from clearhead.evaluation.scores import Scores
from clearhead.evaluation.studying import study_heads

__all__ = [
    "Found",
    "HeadStudy",
    "LabelResults",
    "Likelihood",
    "Metric",
    "Names",
    "PairResults",
    "Results",
    "ScoredLine",
    "Scores",
    "Statistic",
    "StudiedHead",
    "TextResults",
    "dev_scores",
    "edit_distance",
    "evaluate",
    "group",
    "judge_of",
    "kept_scores",
    "line_errors",
    "measure",
    "ratio",
    "read_examples",
    "score",
    "scores_of_run",
    "study_heads",
    "symbol_errors",
]
