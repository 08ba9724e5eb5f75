"""A budget in minutes: how many steps the time that is left allows, asked again while the run goes on.

Steps are the only clock of training, and each decision made here is written down as (step, total, steps between
evaluations): given these, the run can be repeated bit for bit without a clock.
"""

import math
from collections import deque
from dataclasses import dataclass, field

WORTH = 0.02
"""A plan is changed if it misses the end by more than this share of the budget."""
WINDOW = 0.04
"""The pace is measured over the last steps that took at least this share of the budget."""
EVALUATED = 0.2
"""Evaluations on dev take at most this share of the time of the steps: on a busy machine there are fewer of them."""
SELDOM = 1.5
"""A plan is changed, too, if evaluations should be so many times as far apart."""
RUN_OUT = 0.02
"""The rate is not cut off: at least this share of the steps so far is left to bring it down."""


@dataclass(frozen=True)
class StepPlan:
    """How long a run is to be, and how often it is evaluated on the way."""

    steps: int
    evaluate_every: int


@dataclass
class TimeBudget:
    """What a run may take, and how fast it is.

    Args:
        seconds: for everything, from the command's start to the final scores.
        evaluations: how many evaluations on dev are wanted, at most.
        closing: about how many evaluations the final scores are worth.
        per_evaluation: what an evaluation takes, until one has been measured.
        evaluate_every: steps between evaluations, if the user chose them; otherwise they follow from the rest.
    """

    seconds: float
    evaluations: int
    closing: float
    per_evaluation: float
    evaluate_every: int | None = None
    _recent: deque[float] = field(default_factory=deque)
    _taken: float = 0.0

    def note_step(self, seconds: float) -> None:
        """Note how long a step took; only the most recent ones count."""
        self._recent.append(seconds)
        self._taken += seconds
        while self._taken - self._recent[0] >= WINDOW * self.seconds:
            self._taken -= self._recent.popleft()

    def replanned(self, step: int, plan: StepPlan, *, elapsed: float) -> StepPlan:
        """The plan with which the run ends in time; the old one if that comes close."""
        if self._taken < WINDOW * self.seconds or step >= plan.steps:
            return plan
        pace = self._taken / len(self._recent)
        seldom = self.evaluate_every or math.ceil(self.per_evaluation / (EVALUATED * pace))
        every = max(plan.evaluate_every, seldom)
        per_step = pace + self.per_evaluation / every
        last = (1 + self.closing) * self.per_evaluation  # the last evaluation, and the final scores
        left = (self.seconds - elapsed - last) / per_step
        misses = abs(plan.steps - step - left) * per_step
        if misses <= WORTH * self.seconds and seldom <= SELDOM * plan.evaluate_every:
            return plan
        steps = step + max(1, round(left), round(RUN_OUT * step))
        return StepPlan(steps, self.evaluate_every or max(1, seldom, steps // self.evaluations))
