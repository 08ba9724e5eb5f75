"""Training by maximum likelihood, exact to resume."""

from clearhead.training.loss import token_loss
from clearhead.training.objectives import Codecs, Objective, batch_loss, objective_of
from clearhead.training.preparation import Prepared, prepare, reopen
from clearhead.training.report import Report, Silence
from clearhead.training.team import ALONE, Team, team_from_environment, threads_for_each
from clearhead.training.trainer import Progress, Trainer

__all__ = [
    "ALONE",
    "Codecs",
    "Objective",
    "Prepared",
    "Progress",
    "Report",
    "Silence",
    "Team",
    "Trainer",
    "batch_loss",
    "objective_of",
    "prepare",
    "reopen",
    "team_from_environment",
    "threads_for_each",
    "token_loss",
]
