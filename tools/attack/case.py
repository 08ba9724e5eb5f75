"""One bad input, and the allowed results of a command."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from clearhead.cli import BUG

SECONDS = 60
"""Seconds after which a command counts as hung."""
SIGNS = ("Traceback (most recent call last)", BUG, "panicked at", "RuntimeWarning", "UserWarning")
"""Texts that no user should see."""

Prepare = Callable[[Path], None]
"""Creates the files of a case in its folder, the working directory of the command."""
Check = Callable[[Path], str | None]
"""Checks what a successful command left behind; returns a complaint, or None."""


@dataclass(frozen=True)
class Case:
    """A command in a folder."""

    kind: str
    name: str
    """A description, by which the case can be found again."""
    arguments: Sequence[str]
    allowed: frozenset[int]
    """The allowed exit codes."""
    prepare: Prepare = lambda folder: None
    check: Check = lambda folder: None
    environment: Mapping[str, str] = field(default_factory=dict)
    input: bytes | None = None
    """The content of standard input; empty by default, None closes it."""
    memory: int | None = None
    """Bytes of address space (``ulimit -v``)."""
    fresh: bool = False
    """Whether to start a new Python process, for environments that matter at start-up."""


@dataclass(frozen=True)
class Result:
    """How a command ended."""

    code: int | None
    """None if it had to be stopped; negative for a signal."""
    stderr: str
    stdout: str = ""


def complaint(case: Case, result: Result, folder: Path) -> str | None:
    """Say what is wrong with a result; the first word names the kind of fault."""
    if result.code is None:
        return f"hang: not done after {SECONDS} seconds"
    if sign := next((sign for sign in SIGNS if sign in result.stderr), None):
        return f"traceback: {sign!r} on standard error"
    if result.code < 0:
        return f"crash: ended by signal {-result.code}"
    if result.code not in case.allowed:
        return f"code: {result.code}, not one of {sorted(case.allowed)}"
    if result.code and not (result.stderr + result.stdout).strip():
        return f"silence: exit code {result.code} without a message"
    if result.code == 0 and (found := case.check(folder)) is not None:
        return f"damage: {found}"
    return None
