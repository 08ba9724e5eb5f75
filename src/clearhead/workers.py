"""A pool of worker processes: several processes of one thread answer more lines than one process of several threads."""

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import count
from types import TracebackType
from typing import Any, Generic, TypeVar

import threadpoolctl
import torch

from clearhead.errors import ClearheadError

Job = TypeVar("Job")
Result = TypeVar("Result")
Value = TypeVar("Value")
_numbers = count()
_inherited: dict[int, Callable[[Any], Any]] = {}
"""The functions of all pools, by number: forked processes inherit them, so that they need not be pickled."""


class WorkerKilled(ClearheadError):
    """A process of a pool was killed from outside; what it was working on is lost."""


class WorkerPool(Generic[Job, Result]):
    """Applies ``work`` to jobs in forked processes, which share the model's memory; results keep the order of the jobs.

    Args:
        work: the function that turns a job into a result.
        workers: the number of processes. With 1, or where processes cannot be forked, jobs run in this process.
        computes: whether the work is torch's; then each process, this one too, computes with one thread.

    Make the pool before torch has run anything on several threads, as a fork would copy their locks.
    """

    def __init__(self, work: Callable[[Job], Result], workers: int, *, computes: bool = True) -> None:
        if computes:
            one_thread()
        self._work, self._pool, self._number = work, None, next(_numbers)
        if workers > 1 and "fork" in multiprocessing.get_all_start_methods():
            _inherited[self._number] = work
            self._pool = ProcessPoolExecutor(
                workers, multiprocessing.get_context("fork"), initializer=_begin, initargs=(os.getpid(), computes)
            )
        self._ahead = 2 * workers
        self._forked = False

    def __enter__(self) -> "WorkerPool[Job, Result]":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _inherited.pop(self._number, None)
        if self._pool is None:
            return
        if kind is not None:  # the results are not wanted any more
            for process in list((self._pool._processes or {}).values()):
                process.kill()
        self._pool.shutdown(wait=kind is None, cancel_futures=True)

    def results(self, jobs: Iterable[Job | None]) -> Iterator[Result]:
        """Yield the result of each job; only a few run at a time. A job of None waits for all running jobs."""
        under_way: deque[Future[Result]] = deque()
        for job in jobs:
            if job is not None and self._pool is None:
                yield self._work(job)
            elif job is not None and self._pool is not None:
                under_way.append(self._submit(self._pool, job))
            while len(under_way) > (0 if job is None else self._ahead):
                yield _result(under_way.popleft())
        for future in under_way:
            yield _result(future)

    def _submit(self, pool: ProcessPoolExecutor, job: Job) -> Future[Result]:
        """Submit a job; block Ctrl-C while the first workers are forked, as they would inherit its handler."""
        if self._forked or threading.current_thread() is not threading.main_thread():
            return _broken(pool.submit, _do, self._number, job)
        self._forked = True
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            return _broken(pool.submit, _do, self._number, job)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _result(future: Future[Result]) -> Result:
    return _broken(future.result)


def _broken(call: Callable[..., Value], *arguments: Any) -> Value:
    """Call; if a worker process is gone, say so."""
    try:
        return call(*arguments)
    except BrokenProcessPool:
        raise WorkerKilled(
            "a worker process was killed, perhaps because there was not enough memory: "
            "use fewer of them (--threads; training.threads while training data are read) or a smaller "
            "decoding.batch_tokens"
        ) from None


def one_thread() -> None:
    """Limit torch, and NumPy's matrix products, to one thread."""
    torch.set_num_threads(1)
    threadpoolctl.threadpool_limits(1, user_api="blas")


def _begin(parent: int, computes: bool) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # threads do not survive a fork, and would be warned about
    if computes:
        one_thread()
    threading.Thread(target=leave_with, args=(parent,), daemon=True).start()


def leave_with(parent: int) -> None:
    """End this process once its parent is gone, even if that was killed."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _do(number: int, job: Any) -> Any:
    return _inherited[number](job)
