"""Batches are made of what waits: together where that is possible, fairly, none lost and none twice."""

import random
from collections import Counter
from itertools import count

import pytest

from clearhead.serving.batching import FEWEST_LINES, MOST_LINES, Job, JobKind, LineBatch, Queue

KIND, OTHER = JobKind(1, "{}", budget=500), JobKind(2, "{}", budget=500)


def job(lines: int, kind: JobKind = KIND, size: int = 5) -> Job:
    return Job(kind, [f"line {n}" for n in range(lines)], [size + n % 3 for n in range(lines)], {}, lambda: None)


def everything(model: int) -> bool:
    del model
    return True


def take(queue: Queue, **how: int) -> LineBatch:
    batch = queue.take(everything, **how)  # type: ignore[arg-type]
    assert batch is not None
    return batch


def test_what_waits_is_taken_together() -> None:
    queue = Queue()
    jobs = [job(1) for _ in range(30)]
    for one in jobs:
        queue.add(one)
    batch = take(queue)
    assert [part for part, _ in batch.parts] == jobs
    assert batch.size == 30
    assert queue.lines == 0
    assert queue.take(everything) is None


def test_kinds_are_not_mixed_and_take_turns() -> None:
    queue = Queue()
    for kind in (KIND, OTHER, KIND, OTHER):
        queue.add(job(200, kind))
    kinds = [take(queue).kind for _ in range(4)]
    assert kinds == [KIND, OTHER, KIND, OTHER]


def test_a_batch_keeps_to_its_budget() -> None:
    queue = Queue()
    queue.add(job(1000, size=5))
    queue.ratios[1] = 1.0
    batch = take(queue)
    tokens = sum(one.sizes[place] + 1 for one, place in batch.lines())
    assert 500 <= tokens <= 510
    queue.ratios[1] = 0.0  # the lines of a model that reads long words as one token
    assert take(queue).size == MOST_LINES


def test_a_long_request_gives_way_to_short_ones() -> None:
    queue = Queue()
    long, short = job(1000), job(1)
    queue.add(long)
    take(queue)
    queue.add(short)
    batch = take(queue)
    assert batch.parts[0][0] is short
    assert batch.parts[1][0] is long
    assert batch.size > FEWEST_LINES  # the rest of the batch is not wasted


def test_long_requests_take_turns_and_short_ones_do_not_starve_them() -> None:
    queue, long = Queue(), [job(300) for _ in range(4)]
    for one in long:
        queue.add(one)
    take(queue)
    served: Counter[int] = Counter()
    for _ in range(12):
        for _ in range(100):
            queue.add(job(1))  # more than a batch holds, again and again
        for part, places in take(queue).parts:
            if part in long:
                served[long.index(part)] += len(places)
    assert all(served[number] > 50 for number in range(4))


def test_similar_lengths_go_together() -> None:
    """The wrong variant takes lines as they come: its batches mix short and long ones."""
    rng = random.Random(1)
    sizes = [rng.randint(1, 60) for _ in range(400)]
    queue = Queue()
    queue.add(Job(KIND, ["x"] * 400, sizes, {}, lambda: None))
    spread = []
    while (batch := queue.take(everything)) is not None:
        found = [one.sizes[place] for one, place in batch.lines()]
        spread.append(max(found) - min(found))
    as_they_come = [max(sizes[n : n + 20]) - min(sizes[n : n + 20]) for n in range(0, 400, 20)]
    assert max(spread) < min(as_they_come)


def test_idle_workers_share_what_waits() -> None:
    queue = Queue()
    queue.add(job(20))
    assert take(queue, workers=2).size == 10
    assert take(queue, workers=1).size == 10
    queue.add(job(3))
    assert take(queue, workers=2).size == 3  # too little to share


def test_a_full_batch_is_taken_ahead_and_no_smaller_one() -> None:
    queue = Queue()
    queue.add(job(10))
    assert queue.take(everything, full=True) is None
    queue.add(job(200))
    assert queue.take(everything, full=True) is not None


def test_a_worker_gets_only_what_it_has_a_model_for() -> None:
    queue = Queue()
    queue.add(job(1, KIND))
    queue.add(job(1, OTHER))
    batch = queue.take({2}.__contains__)
    assert batch is not None
    assert batch.kind == OTHER
    assert queue.take({2}.__contains__) is None
    assert queue.lines == 1


def test_lines_of_a_lost_worker_come_first_and_request_by_request() -> None:
    queue = Queue()
    first, second = job(2), job(3)
    queue.add(first)
    queue.add(second)
    batch = take(queue)
    queue.add(job(1))
    queue.give_back(batch, again=True)
    assert queue.lines == 6
    for expected in (first, second):
        again = take(queue)
        assert again.again
        assert [part for part, _ in again.parts] == [expected]
    assert not take(queue).again


def test_a_request_that_is_left_frees_its_places() -> None:
    queue = Queue()
    left, stays = job(400), job(1)
    queue.add(left)
    batch = take(queue)
    queue.add(stays)
    queue.give_back(batch, again=True)
    left.end()
    queue.discard(left)
    assert queue.lines == 1
    assert [part for part, _ in take(queue).parts] == [stays]
    assert queue.take(everything) is None


def test_a_line_is_not_answered_twice() -> None:
    one = job(2)
    one.answered(0, "x")
    with pytest.raises(AssertionError):
        one.answered(0, "y")


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_lost_and_nothing_comes_twice_whatever_happens(seed: int) -> None:
    """Requests of all sizes come, leave and are given back at random; every line is answered exactly once."""
    rng, queue, numbers = random.Random(seed), Queue(), count()
    jobs: list[Job] = []
    flying: list[LineBatch] = []
    answers: Counter[tuple[int, int]] = Counter()
    gone: set[Job] = set()

    def settle(batch: LineBatch) -> None:
        for one, place in batch.lines():
            if one not in gone:
                answers[jobs.index(one), place] += 1
                one.answered(place, next(numbers))

    for _ in range(300):
        what = rng.random()
        if what < 0.3:
            jobs.append(job(rng.choice((1, 1, 1, 5, 40, 300)), rng.choice((KIND, OTHER))))
            queue.add(jobs[-1])
        elif what < 0.6 and (batch := queue.take(everything, workers=rng.choice((1, 2)))) is not None:
            flying.append(batch)
        elif what < 0.9 and flying:
            settle(flying.pop(rng.randrange(len(flying))))
        elif what < 0.95 and flying:
            queue.give_back(flying.pop(), again=False)
        elif jobs and not jobs[-1].ended:
            gone.add(jobs[-1])
            jobs[-1].end()
            queue.discard(jobs[-1])
    for batch in flying:
        settle(batch)
    while (left := queue.take(everything)) is not None:
        settle(left)
    assert queue.lines == 0
    whole = {
        (number, place): 1 for number, one in enumerate(jobs) if one not in gone for place in range(len(one.lines))
    }
    assert {key: value for key, value in answers.items() if jobs[key[0]] not in gone} == whole
