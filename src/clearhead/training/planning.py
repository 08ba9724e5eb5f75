"""The plan of an epoch, as a recipe's ``[training]`` asks for it."""

from clearhead.data import Encoded, EpochPlan
from clearhead.recipe import TrainingSpec


def epoch_plan(examples: Encoded, spec: TrainingSpec, epoch: int) -> EpochPlan:
    """The batches of an epoch; they follow from the seed and the settings of batches alone."""
    return EpochPlan(
        examples,
        seed=spec.seed,
        epoch=epoch,
        batch_tokens=spec.batch_tokens,
        window=spec.window,
        shuffle=spec.shuffle or "list",
    )
