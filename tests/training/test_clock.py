"""A budget in minutes is kept on a busy machine, and what it decides can be repeated without a clock.

The clock of these tests is a number that each step and each evaluation advances, so that nothing depends on how fast
the machine is.
"""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
import torch
from safetensors.torch import load_file

from clearhead.errors import Interrupted, RecipeError
from clearhead.recipe import ScheduleSpec, read_recipe, read_with_origins
from clearhead.training import StatedRecipe, Trainer, opened, prepare, reopen, trainer
from clearhead.training.clock import StepPlan, TimeBudget
from clearhead.training.schedule import rate_at, total_at
from clearhead.verbs.session import make_trainer
from tests.thorough import proved_later
from tests.training.test_best import trainer_of
from tests.training.toy import FEW, SMALL, write_pairs

MINUTES = 4.0
STEP, EVALUATION = 4.0, 4.0
"""Seconds of a step, and of an evaluation."""
Pace = Callable[[int, float], float]
"""Seconds that a step takes, from its number and the time."""


def calm(step: int, now: float) -> float:
    del step, now
    return STEP


def busy_for_a_while(step: int, now: float) -> float:
    """Another process takes half of the machine, from a quarter of the time to three quarters."""
    del step
    return 2 * STEP if 60 * MINUTES / 4 < now < 60 * MINUTES * 3 / 4 else STEP


def busy_at_the_end(step: int, now: float) -> float:
    del step
    return 2 * STEP if now > 0.7 * 60 * MINUTES else STEP


def busy_while_it_was_calibrated(step: int, now: float) -> float:
    del step, now
    return 0.5 * STEP


def timed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, pace: Pace, *, stop_at: int = 0, learns: bool = True
) -> tuple[Trainer, float]:
    """Train by a budget of minutes with a scripted clock; return the trainer and when it ended.

    Without ``learns`` steps have no gradients and evaluations always the same scores, where only their number matters.
    """
    clock = SimpleNamespace(now=0.0)
    fake = SimpleNamespace(monotonic=lambda: clock.now)
    monkeypatch.setattr("clearhead.training.trainer.time", fake)
    monkeypatch.setattr("clearhead.training.preparation.seconds_per_step", lambda *_, **__: STEP)
    monkeypatch.setattr(trainer, "LOG_EVERY", 2)
    if (folder / "run" / "run.json").exists():
        made = make_trainer(reopen(folder / "run"))
        assert made.resume()
        clock.now = made.progress.seconds
    else:
        pairs = write_pairs(folder / "pairs.tsv", count=FEW)
        recipe = read_recipe(None, f'data.train="{pairs}"', *SMALL, f"training.minutes={MINUTES}")
        made = make_trainer(prepare(recipe, folder / "run"))
    if not learns:
        made._find_gradients = lambda: (1.0, 1)  # type: ignore[method-assign]
        made.evaluate = lambda _: {made.metric: 50.0, "loss": 1.0}
    step, evaluate = made._step, made.evaluate

    def slow_step() -> None:
        clock.now += pace(made.progress.step, clock.now)
        step()
        if made.progress.step == stop_at:
            raise Interrupted(9, "killed")

    def slow_evaluate(model: Any) -> dict[str, float]:
        clock.now += EVALUATION
        return evaluate(model)

    made._step, made.evaluate = slow_step, slow_evaluate  # type: ignore[method-assign]
    if stop_at:
        with pytest.raises(Interrupted):
            made.run()
    else:
        made.run()
    return made, clock.now


def final_scores(made: Trainer) -> float:
    assert made.clock is not None
    return made.clock.closing * EVALUATION


@pytest.mark.parametrize("pace", [calm, busy_for_a_while, busy_at_the_end, busy_while_it_was_calibrated])
def test_minutes_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pace: Pace) -> None:
    """Within 10 %, evaluations and final scores included, and the rate reaches its end."""
    made, ended = timed(tmp_path, monkeypatch, pace, learns=False)
    ended += final_scores(made)
    assert abs(ended - 60 * MINUTES) <= 0.1 * 60 * MINUTES
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    rates = [row["rate"] for row in rows if row["kind"] == "train"]
    assert rates[-1] < 0.1 * max(rates)
    assert rows[-1]["kind"] == "dev"
    assert made.progress.step == made.steps == rows[-1]["step"]


def test_without_the_clock_a_busy_machine_breaks_the_promise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrong variant: the calibration is believed once."""
    monkeypatch.setattr(TimeBudget, "replanned", lambda _, step, plan, **__: plan)
    made, ended = timed(tmp_path, monkeypatch, busy_for_a_while, learns=False)
    assert made.progress.replans == []
    assert ended + final_scores(made) > 1.1 * 60 * MINUTES


@pytest.mark.parametrize("stop_at", proved_later([0, 20], but=[20]))
def test_the_run_can_be_repeated_without_a_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_at: int) -> None:
    """Also if it was killed, and resumed on a machine that had become faster: clock.jsonl has every decision."""
    folder = tmp_path / "timed"
    folder.mkdir()
    if stop_at:
        timed(folder, monkeypatch, busy_for_a_while, stop_at=stop_at)
    made, _ = timed(folder, monkeypatch, busy_while_it_was_calibrated if stop_at else busy_for_a_while)
    clock = [json.loads(line) for line in (folder / "run" / "clock.jsonl").read_text().splitlines()]
    replans = [[row["step"], row["steps"], row["evaluate_every"]] for row in clock if "steps" in row]
    assert replans == made.progress.replans != []
    monkeypatch.undo()
    monkeypatch.setattr(trainer, "LOG_EVERY", 2)
    first = read_recipe(folder / "run" / "recipe.toml").training
    settings = [f"training.steps={first.steps}", f"training.evaluate_every={first.evaluate_every}"]
    (tmp_path / "again").mkdir()
    again = trainer_of(tmp_path / "again", *settings, f"training.replans={replans}")
    again.run()
    assert again.progress.step == made.progress.step
    one, other = (load_file(at / "run" / "best.safetensors") for at in (folder, tmp_path / "again"))
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())
    same = [(at / "run" / "metrics.jsonl").read_bytes() for at in (folder, tmp_path / "again")]
    assert same[0] == same[1]
    (tmp_path / "plain").mkdir()
    plain = trainer_of(tmp_path / "plain", *settings)  # the wrong variant: without the decisions
    plain.run()
    assert plain.progress.step != made.progress.step


def test_a_finished_run_is_extended_from_where_the_clock_ended_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = timed(tmp_path, monkeypatch, busy_for_a_while)
    monkeypatch.undo()
    ended = made.progress.step
    longer = StatedRecipe(*read_with_origins(None, f"training.steps={ended + 10}"))
    run, begun = opened(longer, tmp_path / "run", resume=True)
    assert begun
    further = make_trainer(run)
    assert further.resume()
    assert (further.progress.step, further.steps) == (ended, ended + 10)
    further.run()
    assert further.progress.step == ended + 10


def test_evaluations_that_take_long_become_fewer() -> None:
    """They take a fifth of the steps' time at most; on a busy machine a run would consist of evaluations otherwise."""
    clock = TimeBudget(100.0, evaluations=4, closing=2.0, per_evaluation=1.0)
    for _ in range(10):
        clock.note_step(1.0)
    plan = StepPlan(92, 23)
    assert clock.replanned(10, plan, elapsed=10.0) == plan
    clock.per_evaluation = 8.0
    found = clock.replanned(10, plan, elapsed=10.0)
    assert found.evaluate_every == 40
    assert found.steps < 92
    clock.evaluate_every = 23  # the user's choice
    assert clock.replanned(10, plan, elapsed=10.0).evaluate_every == 23


@pytest.mark.parametrize("kind", ["cosine", "linear"])
def test_a_corrected_schedule_does_not_jump_and_ends_at_its_end(kind: Literal["cosine", "linear"]) -> None:
    spec = ScheduleSpec(kind=kind, warmup=10)
    replans = [(5, 90, 1), (40, 60, 1), (50, 200, 1)]
    total = total_at(10**6, 100, replans)
    assert total == 200
    assert [total_at(step, 100, replans) for step in (4, 5, 39, 40, 49, 50)] == [100, 90, 90, 60, 60, 200]
    rates = [rate_at(step, spec, 100, replans) for step in range(total + 1)]
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert max(abs(a - b) for a, b in pairwise(rates[10:])) < 0.08
    assert rates[total] == 0.0 < rates[total - 1]
    assert rates[:40] != [rate_at(step, spec, 100) for step in range(40)]  # the first correction counts
    jump = rate_at(40, spec, 60) - rate_at(39, spec, 90)  # the wrong variant: the other total from that step on
    assert abs(jump) > 0.15


def test_replans_that_cannot_be_are_refused() -> None:
    for wrong in ("[[10, 5, 1]]", "[[10, 20, 1], [10, 30, 1]]"):
        with pytest.raises(RecipeError, match=r"training\.replans"):
            read_recipe(None, "training.steps=9", f"training.replans={wrong}")
    with pytest.raises(RecipeError, match="give its first number of steps"):
        read_recipe(None, "training.minutes=9", "training.replans=[[10, 20, 5]]")
