"""A budget in minutes: how many steps the time that is left allows, asked again while the run goes on.

Steps are the only clock of training, and each decision made here is written down as a pair (step, total): given these
pairs, the run can be repeated bit for bit without a clock.
"""

from collections import deque
from dataclasses import dataclass, field

WORTH = 0.02
"""A plan is changed if it misses the end by more than this share of the budget."""
WINDOW = 0.04
"""The pace is measured over the last steps that took at least this share of the budget."""
RUN_OUT = 0.02
"""The rate is not cut off: at least this share of the steps so far is left to bring it down."""


@dataclass
class TimeBudget:
    """What a run may take, and how fast it is.

    Args:
        seconds: for everything, from the command's start to the final scores.
        evaluations: about how many evaluations the final scores are worth.
        per_evaluation: what an evaluation takes, until one has been measured.
    """

    seconds: float
    evaluations: float
    per_evaluation: float
    _recent: deque[float] = field(default_factory=deque)
    _taken: float = 0.0

    def note_step(self, seconds: float) -> None:
        """Note how long a step took; only the most recent ones count."""
        self._recent.append(seconds)
        self._taken += seconds
        while self._taken - self._recent[0] >= WINDOW * self.seconds:
            self._taken -= self._recent.popleft()

    def replanned(self, step: int, total: int, *, elapsed: float, evaluate_every: int) -> int:
        """The total number of steps with which the run ends in time; the old one if that comes close."""
        if self._taken < WINDOW * self.seconds or step >= total:
            return total
        per_step = self._taken / len(self._recent) + self.per_evaluation / evaluate_every
        closing = (1 + self.evaluations) * self.per_evaluation  # the last evaluation, and the final scores
        left = (self.seconds - elapsed - closing) / per_step
        if abs(total - step - left) * per_step <= WORTH * self.seconds:
            return total
        return step + max(1, round(left), round(RUN_OUT * step))
