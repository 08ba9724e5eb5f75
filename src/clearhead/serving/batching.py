"""The queue: requests are cut into batches and batches are made of what waits, without a timer.

Answers do not depend on their batch, so that lines of different requests can be answered together if they are answered
by the same model in the same way. A request waits as a ``Job``. Jobs that have not been served yet come first, so that
a short request is not kept waiting by long ones; long ones take turns, a few lines at a time. Inside a job, lines go
from short to long, so that the lines of a batch are of similar length.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from math import ceil
from typing import Any

TURN = 16
"""Lines that a job may give to a batch while others wait."""
MOST_LINES = 256
"""Lines of a batch."""
FEWEST_LINES = 4
"""Lines of a batch below which nothing is gained by giving a part to another worker."""
_numbers = count(1)


def next_number() -> int:
    """A number by which a worker knows what it is asked: batches and streams share them, as its replies do."""
    return next(_numbers)


@dataclass(frozen=True)
class JobKind:
    """What lines must have in common to be answered together."""

    model: int
    """The number of the model's version."""
    asked: str
    """What is asked, and how, as JSON: the message to a worker without the lines."""
    budget: int = 2048
    """Tokens that a worker takes together."""
    alone: int = 0
    """A number of its own for what cannot be joined with anything."""


@dataclass(eq=False)
class Job:
    """One request, as lines to be answered.

    Args:
        kind: what it has in common with others.
        lines: the lines, or rows.
        sizes: characters of each.
        message: the message to a worker, without the lines.
        finish: called once, when all lines have their results or it has failed.
        first: the number of its first line, by which sampling draws.
    """

    kind: JobKind
    lines: list[Any]
    sizes: list[int]
    message: dict[str, Any]
    finish: Callable[[], None]
    first: int = 0
    results: list[Any] = field(init=False)
    error: Exception | None = None
    ended: bool = False
    """Whether nobody waits for it any more: it is answered, refused, too late, or its client has left."""

    def __post_init__(self) -> None:
        self.results = [None] * len(self.lines)
        self._left = len(self.lines)
        self.waiting = sorted(range(len(self.lines)), key=lambda index: -self.sizes[index])
        """The lines that no worker has, the longest first: they are taken from the end."""

    def answered(self, index: int, result: Any) -> None:
        """Take in the result of one line."""
        if self.ended:
            return
        assert self.results[index] is None  # no line is answered twice
        self.results[index] = result
        self._left -= 1
        if not self._left:
            self.end()

    def fail(self, error: Exception) -> None:
        """End it with an error, unless it has ended."""
        if not self.ended:
            self.error = error
            self.end()

    def end(self) -> None:
        """Nobody waits for it any more."""
        if not self.ended:
            self.ended = True
            self.finish()


@dataclass(eq=False)
class LineBatch:
    """Lines of one kind that a worker answers together."""

    kind: JobKind
    parts: list[tuple[Job, list[int]]]
    """Jobs, each with the places of its lines."""
    again: bool = False
    """Whether a worker was lost over these lines before."""
    number: int = field(default_factory=next_number)

    @property
    def size(self) -> int:
        """How many lines it has."""
        return sum(len(places) for _, places in self.parts)

    def lines(self) -> Iterator[tuple[Job, int]]:
        """Every line: its job, and its place there."""
        for job, places in self.parts:
            for place in places:
                yield job, place

    def apart(self, *, again: bool) -> "list[LineBatch]":
        """The same lines, those of each job as a batch of its own, so that none suffers from another's."""
        return [LineBatch(self.kind, [part], again) for part in self.parts if not part[0].ended]


class _Waiting:
    """The jobs of one kind."""

    def __init__(self) -> None:
        self.fresh: dict[Job, None] = {}
        self.served: dict[Job, None] = {}

    def __bool__(self) -> bool:
        return bool(self.fresh or self.served)

    def discard(self, job: Job) -> None:
        self.fresh.pop(job, None)
        self.served.pop(job, None)


class _Filling:
    """A batch that is being filled.

    Args:
        ratio: tokens for each character.
    """

    def __init__(self, ratio: float) -> None:
        self._ratio, self._spent = ratio, 0.0
        self.most = MOST_LINES
        self.taken = 0
        self.parts: dict[Job, list[int]] = {}

    def take(self, waiting: _Waiting, jobs: dict[Job, None], budget: float) -> None:
        """Let jobs take turns until the budget is spent; those with lines left go to the end of the served ones."""
        while jobs and self._spent < budget and self.taken < self.most:
            job = next(iter(jobs))
            del jobs[job]
            # alone it may fill the batch; beside others it gives a few lines at a time
            turn = TURN if waiting or self.parts else self.most
            places = self.parts.setdefault(job, [])
            while job.waiting and turn and self._spent < budget and self.taken < self.most:
                place = job.waiting.pop()
                places.append(place)
                self._spent += job.sizes[place] * self._ratio + 1
                self.taken, turn = self.taken + 1, turn - 1
            if job.waiting:
                waiting.served[job] = None


class Queue:
    """What waits for a worker. Knows nothing of processes or of time."""

    def __init__(self) -> None:
        self._kinds: dict[JobKind, _Waiting] = {}
        self._again: list[LineBatch] = []
        self.lines = 0
        """Lines that wait."""
        self.ratios: dict[int, float] = {}
        """Tokens for each character, by model; 1 where it is not known yet."""

    def add(self, job: Job) -> None:
        """Put a job into the queue."""
        self._kinds.setdefault(job.kind, _Waiting()).fresh[job] = None
        self.lines += len(job.waiting)

    def discard(self, job: Job) -> None:
        """Take a job out, of which some lines may be with workers already."""
        self.lines -= len(job.waiting)
        job.waiting.clear()
        if (waiting := self._kinds.get(job.kind)) is not None:
            waiting.discard(job)
            if not waiting:
                del self._kinds[job.kind]
        for batch in [batch for batch in self._again if batch.parts[0][0] is job]:
            self._again.remove(batch)
            self.lines -= batch.size

    def give_back(self, batch: LineBatch, *, again: bool) -> None:
        """Put the lines of a batch before all others, each job by itself."""
        found = batch.apart(again=again)
        self._again += found
        self.lines += sum(part.size for part in found)

    def stranded(self, has: Callable[[int], bool]) -> list[Job]:
        """The jobs that wait for a model which nobody has.

        Args:
            has: whether any worker has a model.
        """
        found = [job for batch in self._again if not has(batch.kind.model) for job, _ in batch.parts]
        for kind, waiting in self._kinds.items():
            if not has(kind.model):
                found += [*waiting.fresh, *waiting.served]
        return found

    def take(self, has: Callable[[int], bool], *, workers: int = 1, full: bool = False) -> LineBatch | None:
        """The next batch for a worker, None if nothing waits for it.

        Args:
            has: whether the worker has a model.
            workers: how many workers have nothing to do: what waits is shared out among them.
            full: take a batch only if it is as large as batches become.
        """
        for place, batch in enumerate(self._again):
            if has(batch.kind.model) and not full:
                del self._again[place]
                self.lines -= batch.size
                return batch
        for kind, waiting in self._kinds.items():
            if has(kind.model) and (not full or self._is_full(kind, waiting)):
                batch = self._fill(kind, waiting, workers)
                del self._kinds[kind]
                if waiting:
                    self._kinds[kind] = waiting  # the other kinds come first next time
                return batch
        return None

    def _fill(self, kind: JobKind, waiting: _Waiting, workers: int) -> LineBatch:
        """Take lines of one kind until the budget is spent: at most half of it for jobs that were never served."""
        filling = _Filling(self.ratios.get(kind.model, 1.0))
        if workers > 1:  # little waits if several workers have nothing to do: each gets a share
            lines = sum(len(job.waiting) for jobs in (waiting.fresh, waiting.served) for job in jobs)
            filling.most = min(MOST_LINES, max(FEWEST_LINES, ceil(lines / workers)))
        filling.take(waiting, waiting.fresh, kind.budget / 2 if waiting.served else kind.budget)
        filling.take(waiting, waiting.served, kind.budget)
        filling.take(waiting, waiting.fresh, kind.budget)
        self.lines -= filling.taken
        return LineBatch(kind, list(filling.parts.items()))

    def _is_full(self, kind: JobKind, waiting: _Waiting) -> bool:
        """Whether enough waits for a whole batch."""
        ratio = self.ratios.get(kind.model, 1.0)
        tokens, lines = 0.0, 0
        for jobs in (waiting.fresh, waiting.served):
            for job in jobs:
                for place in reversed(job.waiting):
                    tokens += job.sizes[place] * ratio + 1
                    lines += 1
                    if tokens >= kind.budget or lines >= MOST_LINES:
                        return True
        return False
