"""Trains a small model as the product trains any model, by its trainer and its objectives, in a temporary folder."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from clearhead.data import Encoded
from clearhead.data.arrays import Side
from clearhead.models import Model
from clearhead.recipe import Recipe
from clearhead.training import Objective, SilentReport, Trainer

EVEN_RATE = [
    *("training.schedule.kind=constant", "training.schedule.warmup=0"),
    *("training.label_smoothing=0.0", "training.average=0.0"),
    *("model.dropout.residual=0.0", "model.dropout.embedding=0.0"),
]
"""Settings for a few steps of plain training: nothing is dropped, averaged or smoothed, and all steps count alike."""


def side(ids: Int[Tensor, "b n"]) -> Side:
    """Rows of one length as encoded lines."""
    return Side(ids.numpy().astype(np.uint32).ravel(), np.arange(len(ids) + 1, dtype=np.int64) * ids.shape[1])


def learn(
    model: Model,
    examples: Encoded,
    objective: Objective[Any, Any, Any],
    recipe: Recipe,
    loss: Callable[[Model], float] = lambda _model: 0.0,
) -> list[float]:
    """Train ``model`` by its recipe's ``[training]``; return the ``loss`` of the model at each evaluation."""
    assert recipe.training.steps is not None
    with tempfile.TemporaryDirectory() as folder, torch.enable_grad():
        trainer = Trainer(
            model.train(),
            examples,
            objective,
            recipe.training,
            steps=recipe.training.steps,
            folder=Path(folder),
            evaluate=lambda average: {"loss": loss(average)},
            metric="loss",
            save_best=lambda _best: None,
            report=SilentReport(Path(folder)),
        )
        history = trainer.run().history
    model.eval()
    return [row["dev_loss"] for row in history]


def idle_step(trainer: Any) -> None:
    """What stands in for a step of a broken trainer: it is counted, and nothing else."""
    trainer.progress.step += 1
    trainer.progress.token_sum += 1
