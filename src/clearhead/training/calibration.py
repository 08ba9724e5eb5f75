"""How long a step takes: some real steps of a throw-away model, by all processes as they will train.

The leader prepares a run alone, while the others wait. To measure, it asks them to take part: they open what is
prepared so far in the run folder, and take their share of every batch, with the whole model or with a part of it.
"""

import gc
import json
from contextlib import closing
from pathlib import Path

from clearhead.data import Encoded
from clearhead.models import build, pick_device
from clearhead.recipe import Recipe, recipe_from, recipe_table
from clearhead.training.common_folder import require_one_folder
from clearhead.training.hardware import fast_products, placed, random_states, set_random_states
from clearhead.training.objectives import objective_of
from clearhead.training.parallel import place_of, shared_kind
from clearhead.training.process_group import SINGLE, ProcessGroup
from clearhead.training.report import SilentReport
from clearhead.training.trainer import Trainer
from clearhead.training.tuning import tuned

ENDLESS = 1_000_000
"""Steps of the run that is measured: as many as no calibration does, so that the rate is never higher than its own."""


def seconds_per_step(
    recipe: Recipe, examples: Encoded, group: ProcessGroup = SINGLE, *, folder: Path, known: str, at_least: float
) -> float:
    """Seconds of a step, as the leader asks for them; each of the other processes must be in ``assist``.

    Args:
        recipe: with everything that training needs but a budget.
        examples: the encoded training examples.
        group: the processes that train together. Default: this one alone.
        folder: where the examples are.
        known: a file there, by which the others see that their folder is this one.
        at_least: seconds that the steps should take together.
    """
    if group.size > 1:
        group.common(json.dumps({"recipe": recipe_table(recipe), "known": known, "at_least": at_least}))
        require_one_folder(folder, group, known)
    return _measured(recipe, examples, group, folder, at_least)


def assist(folder: Path, group: ProcessGroup) -> None:
    """Take part when the leader measures, until it is ready; for the other processes.

    Args:
        folder: where the leader will have put the examples.
        group: the processes that train together.
    """
    while asked := group.common(""):
        wanted = json.loads(asked)
        require_one_folder(folder, group, wanted["known"])
        recipe = recipe_from(wanted["recipe"])
        _measured(recipe, objective_of(recipe).open(folder), group, folder, wanted["at_least"])


def dismiss(group: ProcessGroup) -> None:
    """Let the other processes go on, which ``assist``."""
    group.common("")


def _measured(recipe: Recipe, examples: Encoded, group: ProcessGroup, folder: Path, at_least: float) -> float:
    """Without ``training.compile``: a graph would be compiled twice, and the clock corrects the steps anyway."""
    spec = recipe.training.with_steps(ENDLESS, ENDLESS).replaced(compile=False)
    device = pick_device(spec.device)
    state = random_states(device)
    model = tuned(build(recipe, seed=0), spec)
    kind = shared_kind(model, spec.parallel, group, device)
    trainer = Trainer(
        placed(model, spec, place_of(kind, device)),
        examples,
        objective_of(recipe),
        spec,
        steps=ENDLESS,
        folder=folder,
        evaluate=lambda _: {},
        metric="loss",
        save_best=lambda _: None,
        report=SilentReport(folder),
        group=group,
        kind=kind,
    )
    with closing(trainer), fast_products(spec):
        seconds = trainer.pace(at_least)
    del model, trainer
    if kind != "alone":
        gc.collect()  # torch's wrappers hold themselves, and the model that is trained may fit only once
    set_random_states(state, device)
    return seconds
