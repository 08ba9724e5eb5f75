"""Runs tests on a mutated package, each mutation in a process forked from this one.

This process has imported the libraries, but not clearhead. The child puts an *overlay* in front of the import path: a
folder of links to the package, with one real file, the mutated one. So every import sees the mutation, also in
processes that the tests start.
"""

import gc
import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings

from tools.mutate.catalogue import PACKAGE, ROOT, Mutation

SECONDS = 240
"""How long the tests of one mutation may take."""
LIBRARIES = (
    "beartype",
    "hypothesis",
    "jaxtyping",
    "numpy",
    "pydantic",
    "pytest",
    "rich",
    "sacrebleu.metrics",
    "safetensors.torch",
    "sympy",
    "tokenizers",
    "torch",
    "transformers",
    "typer",
)
NO_TEST_OF_VALUES = (ImportError, NameError, SyntaxError)
"""A mutation that ends in one of these is malformed: any test would notice."""


@dataclass
class Outcome:
    """What the tests of one mutation said.

    Args:
        failed: the tests that failed; with a mutation, the first one.
        ran: the number of tests that ran.
        refused: why the mutation proves nothing, e.g. the package cannot be imported; None if it is sound.
        seconds: how long it took.
        busy: seconds that a processor worked on it; less than ``seconds`` on a machine that has other things to do.
    """

    failed: list[str] = field(default_factory=list)
    ran: int = 0
    refused: str | None = None
    seconds: float = 0.0
    busy: float = 0.0

    @property
    def verdict(self) -> str:
        """caught, survived or refused."""
        if self.refused is not None:
            return "refused"
        return "caught" if self.failed else "survived"


@dataclass(frozen=True)
class Job:
    """Tests to run, on the package as it is or with a mutation.

    Args:
        tests: node ids, relative to ``folder``.
        mutation: the change. Default: none.
        folder: where the tests are. Default: ``tests`` of this repository.
        package: the folder of the package that is mutated. Default: clearhead's.
    """

    tests: tuple[str, ...]
    mutation: Mutation | None = None
    folder: Path = ROOT / "tests"
    package: Path = PACKAGE


@dataclass
class _Running:
    job: Job
    scratch: Path
    pid: int
    started: float


def import_libraries(names: Iterable[str] = LIBRARIES) -> None:
    """Import once what all children need, on one thread, so that forking is safe."""
    os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    for name in names:
        importlib.import_module(name)
    if "clearhead" in sys.modules:
        raise RuntimeError("clearhead is imported already: children would not see a mutation")


def run_all(jobs: Iterable[Job], *, at_once: int) -> Iterator[tuple[Job, Outcome]]:
    """Yield every job with its outcome, in the order in which they end."""
    waiting, running = list(reversed(list(jobs))), list[_Running]()
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                running.append(_start(waiting.pop()))
            time.sleep(0.02)
            for one in list(running):
                outcome = _ended(one)
                if outcome is not None:
                    running.remove(one)
                    yield one.job, outcome
    finally:
        for one in running:
            _stop(one)


def overlay(mutation: Mutation, folder: Path, package: Path = PACKAGE) -> None:
    """Fill ``folder`` with a package that is the original but for one file; all else are links."""
    here, there = folder / package.name, package
    *parents, name = Path(mutation.file).parts
    for part in [*parents, name]:
        here.mkdir(parents=True)
        for path in there.iterdir():
            if path.name != part:
                (here / path.name).symlink_to(path)
        here, there = here / part, there / part
    here.write_text(mutation.source(package), encoding="utf-8")
    os.utime(here, (1, 1))  # older than any compiled file, which therefore is not taken for it


def _start(job: Job) -> _Running:
    scratch = Path(tempfile.mkdtemp(prefix="mutate-"))
    if job.mutation is not None:
        overlay(job.mutation, scratch / "overlay", job.package)
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        _act(job, scratch)
    return _Running(job, scratch, pid, time.monotonic())


def _ended(one: _Running) -> Outcome | None:
    """The outcome of a child that has ended or takes too long; None if it still runs."""
    pid, _, used = os.wait4(one.pid, os.WNOHANG)
    seconds = time.monotonic() - one.started
    if not pid and seconds < SECONDS * (1 if one.job.mutation else 5):
        return None
    if not pid:
        _stop(one)
        return Outcome(refused=f"no end within {SECONDS} seconds", seconds=seconds)
    try:
        outcome = Outcome(**json.loads((one.scratch / "outcome.json").read_bytes()))
    except FileNotFoundError:
        log = (one.scratch / "log").read_text(encoding="utf-8", errors="replace")
        outcome = Outcome(refused="the process died: " + (log.strip().splitlines() or ["no message"])[-1])
    outcome.seconds, outcome.busy = seconds, used.ru_utime + used.ru_stime
    _clear(one)
    return outcome


def _stop(one: _Running) -> None:
    _clear(one)
    with suppress(ChildProcessError):
        os.waitpid(one.pid, 0)


def _clear(one: _Running) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(one.pid, signal.SIGKILL)  # the child, or workers that it may have left
    shutil.rmtree(one.scratch, ignore_errors=True)


def _act(job: Job, scratch: Path) -> None:
    """In the child: run the tests and leave the outcome in a file. Never returns."""
    try:
        gc.freeze()  # pytest collects garbage several times at its end: not that of the parent too
        os.setsid()
        log = os.open(scratch / "log", os.O_WRONLY | os.O_CREAT, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(job.folder.parent)
        mutated = job.mutation is not None
        source = scratch / "overlay" if mutated else job.package.parent
        # compiled files are written without a mutation, and read with one: most of the time goes to imports
        sys.dont_write_bytecode = mutated
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1" if mutated else ""
        os.environ["PYTHONPATH"] = str(source)
        sys.path.insert(0, str(source))
        importlib.invalidate_caches()
        outcome = _tested(job, scratch)
        (scratch / "outcome.json").write_text(json.dumps(asdict(outcome)), encoding="utf-8")
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _tested(job: Job, scratch: Path) -> Outcome:
    observer = _Observer()
    options = ["-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", f"--basetemp={scratch}/tests"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # plugins are imported already
    if job.mutation is not None:
        options.append("--exitfirst")
    code = pytest.main([*options, *(str(job.folder / test) for test in job.tests)], plugins=[observer])
    outcome = Outcome(observer.failed, observer.ran, observer.refused)
    if outcome.refused is None and code not in (0, 1):
        outcome.refused = f"pytest could not run {', '.join(job.tests)} (exit code {int(code)})"
    if outcome.refused is None and job.mutation is not None:
        module = job.mutation.module(job.package)
        try:
            importlib.import_module(module)
        except Exception as error:
            outcome.refused = f"{module} cannot be imported: {error!r}"
    return outcome


class _Observer:
    """A plugin of pytest that keeps what failed, and why."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.refused: str | None = None
        self.ran = 0

    def pytest_configure(self) -> None:
        phases = [Phase.explicit, Phase.generate]  # no time for the smallest example
        settings.register_profile("mutate", database=None, phases=phases, deadline=None)
        settings.load_profile("mutate")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.ran += report.when == "call"
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.refused = f"{report.nodeid} cannot be collected"

    def pytest_exception_interact(self, call: Any) -> None:
        error = call.excinfo.value if call.excinfo is not None else None
        if isinstance(error, NO_TEST_OF_VALUES):
            self.refused = f"{type(error).__name__}: {error}"


def group_by_file(tests: Sequence[str]) -> list[tuple[str, ...]]:
    """All different tests, those of a file together."""
    groups: dict[str, list[str]] = {}
    for test in dict.fromkeys(tests):
        groups.setdefault(test.partition("::")[0], []).append(test)
    return [tuple(sorted(group)) for group in groups.values()]
