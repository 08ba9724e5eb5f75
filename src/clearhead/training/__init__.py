"""Training by maximum likelihood; a resumed run gives the same weights, bit for bit, as one that was never stopped."""

from clearhead.training.adapter_file import ADAPTERS, adapted_model, save_adapters
from clearhead.training.adapters import AdaptedLinear, merged
from clearhead.training.calibration import assist, dismiss
from clearhead.training.checkpoint import has_trained
from clearhead.training.common_folder import require_one_folder
from clearhead.training.hardware import fast_products, notes_on, placed
from clearhead.training.joint import joint_names, put_joint
from clearhead.training.loss import token_loss
from clearhead.training.manifest import Manifest, Stage, checksum_of
from clearhead.training.objectives import Codecs, Objective, batch_loss, objective_of
from clearhead.training.parallel import (
    BYTES_OF_A_PARAMETER,
    GradientSource,
    Learner,
    place_of,
    replicated,
    sharded,
    shared_kind,
)
from clearhead.training.preparation import UNFINISHED, Prepared, prepare, reopen, time_budget
from clearhead.training.process_group import SINGLE, ProcessGroup, open_process_group, threads_for_each
from clearhead.training.report import Report, SilentReport
from clearhead.training.resuming import StatedRecipe, opened
from clearhead.training.start import FILE as START
from clearhead.training.start import Start
from clearhead.training.trainer import Progress, Trainer
from clearhead.training.tuning import trained_names, tuned
from clearhead.training.writing import clear_write_errors

__all__ = [
    "ADAPTERS",
    "BYTES_OF_A_PARAMETER",
    "SINGLE",
    "START",
    "UNFINISHED",
    "AdaptedLinear",
    "Codecs",
    "GradientSource",
    "Learner",
    "Manifest",
    "Objective",
    "Prepared",
    "ProcessGroup",
    "Progress",
    "Report",
    "SilentReport",
    "Stage",
    "Start",
    "StatedRecipe",
    "Trainer",
    "adapted_model",
    "assist",
    "batch_loss",
    "checksum_of",
    "clear_write_errors",
    "dismiss",
    "fast_products",
    "has_trained",
    "joint_names",
    "merged",
    "notes_on",
    "objective_of",
    "open_process_group",
    "opened",
    "place_of",
    "placed",
    "prepare",
    "put_joint",
    "reopen",
    "replicated",
    "require_one_folder",
    "save_adapters",
    "sharded",
    "shared_kind",
    "threads_for_each",
    "time_budget",
    "token_loss",
    "trained_names",
    "tuned",
]
