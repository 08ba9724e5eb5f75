"""The pool of worker processes."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from clearhead.predictor import WorkerPool


@pytest.mark.parametrize("workers", [1, 3])
def test_results_come_in_order_and_only_a_few_jobs_are_under_way(workers: int) -> None:
    """Jobs are asked for lazily, so that endless input needs bounded memory."""
    asked = 0

    def jobs() -> Iterator[int | None]:
        nonlocal asked
        for number in range(50):
            asked += 1
            yield number

    def work(number: int) -> tuple[int, int]:
        return number * number, os.getpid()

    with WorkerPool(work, workers) as pool:
        results = pool.results(jobs())
        first = next(results)
        assert asked <= 2 * workers + 1
        rest = list(results)
    assert [value for value, _ in (first, *rest)] == [number * number for number in range(50)]
    assert (os.getpid() in {pid for _, pid in rest}) == (workers == 1)


def test_a_job_of_none_asks_for_everything_under_way() -> None:
    """A pipe that waits for its answer must get it before it is asked for more."""
    answered: list[int] = []

    def jobs() -> Iterator[int | None]:
        for number in range(6):
            yield number
            yield None
            assert answered == list(range(number + 1))

    def work(number: int) -> int:
        return number

    with WorkerPool(work, 2) as pool:
        for number in pool.results(jobs()):
            answered.append(number)


def test_workers_leave_with_a_killed_parent() -> None:
    """No process is left behind that nobody waits for."""
    script = (
        "import os, time\n"
        "from clearhead.predictor import WorkerPool\n"
        "with WorkerPool(lambda _: os.getpid(), 2) as pool:\n"
        "    print(next(pool.results([1, 2, 3])), flush=True)\n"
        "    time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    worker = int(process.stdout.readline())
    process.kill()
    process.communicate()
    for _ in range(100):
        try:
            os.kill(worker, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    raise AssertionError("the worker is still there")
