"""Opens the run in a folder, and checks that the settings given now agree with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from clearhead.data import Progress, unwatched
from clearhead.errors import ClearheadError, DataError, Problem, RecipeError
from clearhead.recipe import Recipe, Settings, recipe_table
from clearhead.training.checkpoint import has_trained, load_checkpoint
from clearhead.training.contradictions import contradictions
from clearhead.training.preparation import Prepared, extend, prepare, reopen
from clearhead.training.process_group import SINGLE, ProcessGroup
from clearhead.training.schedule import describe_schedule, total_at
from clearhead.training.start import Start
from clearhead.training.trainer import evaluate_every

_STEPS = ("training", "steps")
_FREE = {("training", "parallel"), ("training", "device")}
"""Settings that may change whenever a run is continued: what is learnt stays the same."""


@dataclass(frozen=True)
class StatedRecipe:
    """A recipe, and which of its settings were given; the others are defaults and cannot contradict a run."""

    recipe: Recipe
    given: Settings = field(default_factory=dict)
    start: Start | None = None
    """The model that the run is to start from; None for one from scratch, and for a run that is resumed without it."""
    free: bool = False
    """Whether nobody described the layers, so that the data may decide about them."""

    @property
    def left_to_data(self) -> frozenset[str]:
        """What the data decide, as ``prepare`` takes it: layers that nobody described, and what goes with them."""
        beside = {
            "joint": ("model", "joint"),
            "batch": ("training", "batch_tokens"),
            "rate": ("training", "optimizer"),
            "agreement": ("training", "agreement"),
            "length": ("decoding", "length_penalty"),
        }
        open_ones = {part for part, key in beside.items() if not any(given[:2] == key for given in self.given)}
        return frozenset({"layers", *open_ones}) if self.free else frozenset()


def opened(
    asked: StatedRecipe, folder: Path, group: ProcessGroup = SINGLE, *, resume: bool, progress: Progress = unwatched
) -> tuple[Prepared, bool]:
    """Return the run in this folder and whether it already existed; if it did not, prepare it.

    Without ``resume``, a folder in which nothing has been trained yet is prepared again, and one with training results
    is refused: nothing that was trained is ever overwritten.
    """
    there = (folder / "recipe.toml").exists() or (folder / "run.json").exists()
    trained = has_trained(folder)
    if trained and not resume:
        raise ClearheadError(f"{folder}: has a run already; add --resume to continue it, or choose another -o")
    if trained and not there:
        raise ClearheadError(
            f"{folder}: has a trained model, but neither run.json nor recipe.toml to continue with: restore one "
            "of them, or choose another -o; nothing was changed"
        )
    if resume and not there and asked.recipe.data.task == "none" and asked.recipe.data.train is None:
        raise DataError(f"{folder}: has no run to continue, and no data to start one: name a file of pairs or a task")
    if not there or not resume:
        run = prepare(asked.recipe, folder, group, start=asked.start, free=asked.left_to_data, progress=progress)
        return run, False
    run = reopen(folder)
    _require_checkpoint(folder)
    return _agreed(asked, run), True


def _require_checkpoint(folder: Path) -> None:
    """A best model without a checkpoint would be overwritten by the first evaluation."""
    if (folder / "best.safetensors").exists() and load_checkpoint(folder / "last")[0] is None:
        raise DataError(
            f"{folder}: has a best model, but no checkpoint in last/ to continue from: restore one, choose another "
            "-o, or move best.safetensors away to train from the beginning"
        )


def _agreed(asked: StatedRecipe, run: Prepared) -> Prepared:
    """The run, extended if more steps are asked for; all other contradictions are reported at once."""
    given = {key: origin for key, origin in asked.given.items() if key not in _FREE}
    problems = contradictions(asked.recipe, given, run.manifest.asked, recipe_table(run.recipe))
    if asked.start is not None and asked.start.fingerprint != run.origin.get("fingerprint"):
        began = f"from {run.origin['name']}" if run.origin else "from scratch"
        problems.append(Problem("", "--from", f"the run started {began}, you ask for {asked.start.name}"))
    others = [problem for problem in problems if problem.key != ".".join(_STEPS)]
    wanted, has = asked.recipe.training.steps, run.recipe.training.steps
    if len(others) == len(problems) == 0:
        return run
    assert has is not None
    if others or wanted is None:
        raise RecipeError([*problems, _way_out(run)])
    state = _state(run)
    step, finished, has = int(state.get("step", 0)), _is_finished(state, run), _total(state, run)
    if not finished:
        advice = f"is at step {step:,} of {has:,}: finish it with --resume first, then extend it with --max-steps"
        raise RecipeError([*problems, Problem("", "", f"{run.folder}: {advice}")])
    if wanted <= has:
        advice = f"has done its {has:,} steps: to continue, ask for more than {has:,} with --max-steps"
        raise RecipeError([*problems, Problem("", "", f"{run.folder}: {advice}")])
    longer = extend(run, wanted, step, evaluate_every(run.recipe.training))
    note = (
        f"continuing from step {step:,} to step {wanted:,}; {describe_schedule(longer.recipe.training, step, wanted)}"
    )
    return replace(longer, notes=(*run.notes, note))


def _way_out(run: Prepared) -> Problem:
    return Problem(
        "",
        "",
        f"{run.folder}: --resume continues the run as it is; drop these settings, or choose another -o for a new run",
    )


def _state(run: Prepared) -> Mapping[str, Any]:
    checkpoint, _ = load_checkpoint(run.folder / "last")
    return checkpoint.state if checkpoint is not None else {}


def _is_finished(state: Mapping[str, Any], run: Prepared) -> bool:
    spec = run.recipe.training
    step = state.get("step", 0)
    begins = step in [stage.until for stage in run.manifest.stages[:-1]]  # an extension, with new patience
    patient = begins or spec.patience is None or state.get("waited", 0) < spec.patience
    return step >= _total(state, run) or not patient


def _total(state: Mapping[str, Any], run: Prepared) -> int:
    """The steps of the run, as its budget in minutes has corrected them."""
    spec = run.recipe.training
    assert spec.steps is not None
    replans = spec.replans or state.get("replans", ())
    return total_at(state.get("step", 0), spec.steps, replans) if len(run.manifest.stages) == 1 else spec.steps
