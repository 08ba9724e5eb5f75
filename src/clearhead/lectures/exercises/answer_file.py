"""An answer in a file: the user's own Python, run in a process of its own with a time limit."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from clearhead.errors import Problem, RecipeError
from clearhead.lectures.exercises.calls import Plain

SECONDS = 60.0


class AnswerFailed(Exception):
    """The file could not be run to its end; the message says why."""


def run_file(path: Path, cases: Sequence[Sequence[Any]], *, seconds: float = SECONDS) -> list[Plain]:
    """What ``answer`` of this file returns for each case.

    The process has the user's rights: run only a file that you would run yourself. It is ended after ``seconds``.
    """
    if not path.is_file():
        raise RecipeError([Problem("", str(path), "no such file")])
    command = [sys.executable, "-m", "clearhead.lectures.exercises.run_answer", str(path)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
        start_new_session=True,
    )
    try:
        out, _ = process.communicate(json.dumps(cases), timeout=seconds)
    except subprocess.TimeoutExpired:
        raise AnswerFailed(f"it did not end within {seconds:g} seconds") from None
    finally:
        _end(process)
    return _told(out, path, process.returncode)


def _told(out: str, path: Path, code: int) -> list[Plain]:
    try:
        told = json.loads(out.strip().splitlines()[-1])
    except (ValueError, IndexError):
        raise AnswerFailed(f"its process ended with {code} and without an answer") from None
    if "missing" in told:
        raise RecipeError([Problem("", str(path), "defines no `answer`: name your function or value so")])
    if "failed" in told:
        where = "" if told["line"] is None else f" in line {told['line']}"
        raise AnswerFailed(f"it ended{where} with {told['failed']}")
    results: list[Plain] = told["results"]
    return results


def _end(process: "subprocess.Popen[str]") -> None:
    """End the process and what it started."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL) if hasattr(os, "killpg") else process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
