"""Training by maximum likelihood, exact to resume."""

from clearhead.training.checkpoint import has_trained
from clearhead.training.loss import token_loss
from clearhead.training.manifest import Manifest, Stage
from clearhead.training.objectives import Codecs, Objective, batch_loss, objective_of
from clearhead.training.preparation import Prepared, prepare, reopen
from clearhead.training.report import Report, Silence
from clearhead.training.resuming import Asked, opened
from clearhead.training.team import ALONE, Team, team_from_environment, threads_for_each
from clearhead.training.trainer import Progress, Trainer
from clearhead.training.writing import telling

__all__ = [
    "ALONE",
    "Asked",
    "Codecs",
    "Manifest",
    "Objective",
    "Prepared",
    "Progress",
    "Report",
    "Silence",
    "Stage",
    "Team",
    "Trainer",
    "batch_loss",
    "has_trained",
    "objective_of",
    "opened",
    "prepare",
    "reopen",
    "team_from_environment",
    "telling",
    "threads_for_each",
    "token_loss",
]
