"""Training by maximum likelihood, exact to resume."""

from clearhead.training.loss import token_loss
from clearhead.training.preparation import Prepared, prepare, reopen
from clearhead.training.report import Report
from clearhead.training.trainer import Progress, Trainer

__all__ = ["Prepared", "Progress", "Report", "Trainer", "prepare", "reopen", "token_loss"]
