"""Training by maximum likelihood, exact to resume."""

from clearhead.training.loss import token_loss
from clearhead.training.objectives import Codecs, Objective, batch_loss, objective_of
from clearhead.training.preparation import Prepared, prepare, reopen
from clearhead.training.report import Report
from clearhead.training.trainer import Progress, Trainer

__all__ = [
    "Codecs",
    "Objective",
    "Prepared",
    "Progress",
    "Report",
    "Trainer",
    "batch_loss",
    "objective_of",
    "prepare",
    "reopen",
    "token_loss",
]
