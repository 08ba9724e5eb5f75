"""Runs cases in parallel, each in a process forked from this one, which has imported everything once."""

import gc
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools.attack.case import SECONDS, Case, Result, complaint

MEMORY = 6 << 30
"""Address space of a case: commands must refuse what would need more."""


@dataclass
class _Running:
    case: Case
    folder: Path
    pid: int
    started: float


def run_all(cases: Iterable[Case], *, jobs: int, scratch: Path) -> Iterator[tuple[Case, Result, str | None]]:
    """Yield every case with its result and its fault, in the order in which they end."""
    import_everything()
    scratch.mkdir(parents=True, exist_ok=True)
    waiting, running = iter(cases), list[_Running]()
    exhausted = False
    while running or not exhausted:
        while not exhausted and len(running) < jobs:
            case = next(waiting, None)
            if case is None:
                exhausted = True
                break
            running.append(_start(case, scratch))
        time.sleep(0.005)
        for one in list(running):
            code = _ended(one)
            if isinstance(code, str):
                continue
            running.remove(one)
            yield one.case, *_judged(one, code)


def _judged(one: _Running, code: int | None) -> tuple[Result, str | None]:
    stderr, stdout = ((one.folder / name).read_bytes().decode("utf-8", "replace") for name in ("stderr", "stdout"))
    result = Result(code, stderr, stdout)
    found = complaint(one.case, result, one.folder / "work")
    shutil.rmtree(one.folder, ignore_errors=True)
    return result, found


def _start(case: Case, scratch: Path) -> _Running:
    folder = Path(tempfile.mkdtemp(dir=scratch))
    work = folder / "work"
    work.mkdir()
    case.prepare(work)
    if case.input is not None:
        (folder / "stdin").write_bytes(case.input)
    (folder / "stderr").touch()
    (folder / "stdout").touch()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        _act(case, folder)
    return _Running(case, folder, pid, time.monotonic())


def _ended(one: _Running) -> int | str | None:
    """The exit code, None if it hung, or "running".

    The time that it waited for a processor does not count: on a busy machine a command is slow, but does not hang.
    """
    pid, status = os.waitpid(one.pid, os.WNOHANG)
    if pid:
        _kill_group(one.pid)  # workers that it may have left
        return os.waitstatus_to_exitcode(status)
    passed = time.monotonic() - one.started
    if passed - _waited(one.pid) < SECONDS:
        return "running"
    _kill_group(one.pid)
    os.waitpid(one.pid, 0)
    return None


def _waited(pid: int) -> float:
    """Seconds that a process was ready to run while others had the processors; 0 where the system does not say."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    return 0.0


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _act(case: Case, folder: Path) -> None:
    """In the child: become the command. Never returns."""
    code = 99
    try:
        gc.freeze()  # otherwise a collection would look at, and copy, all that the parent has made
        os.setsid()
        os.chdir(folder / "work")
        os.environ.update({"OMP_NUM_THREADS": "1", "NO_COLOR": "1", "COLUMNS": "80", "HOME": ".", **case.environment})
        limit = case.memory or MEMORY
        _connect(case, folder)
        os.closerange(3, 4096)  # what this process has open is no business of the command's
        if case.fresh:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            os.execv(sys.executable, [sys.executable, "-m", "clearhead", *case.arguments])
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        sys.argv = ["clearhead", *case.arguments]
        from clearhead.cli import main

        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _connect(case: Case, folder: Path) -> None:
    """Redirect the standard streams: input from the case, output to nowhere, errors to a file."""
    source = folder / "stdin" if case.input is not None else Path(os.devnull)
    for number, path, flags in (
        (0, source, os.O_RDONLY),
        (1, folder / "stdout", os.O_WRONLY | os.O_CREAT),
        (2, folder / "stderr", os.O_WRONLY),
    ):
        descriptor = os.open(path, flags, 0o644)
        os.dup2(descriptor, number)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


@cache
def import_everything() -> None:
    """Import what commands import lazily, once for all of them; on one thread, so that forking is safe."""
    os.environ["OMP_NUM_THREADS"] = "1"
    import numpy.ma  # noqa: F401
    import sacrebleu.metrics  # noqa: F401
    import torch._dynamo  # torch's optimizers import it
    import typer.rich_utils  # noqa: F401 - it prints messages about wrong words

    import clearhead.cli.app
    import clearhead.evaluation.functions
    import clearhead.verbs.session

    for name in clearhead.__all__:
        getattr(clearhead, name)
    torch.set_num_threads(1)
