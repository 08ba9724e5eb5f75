"""One bad input, and what a command may do with it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from clearhead.cli import BUG

SECONDS = 60
"""After this long a command hangs."""
SIGNS = ("Traceback (most recent call last)", BUG, "panicked at", "RuntimeWarning", "UserWarning")
"""What no user should see."""

Prepare = Callable[[Path], None]
"""Lays out the files of a case in its folder, which is the working directory of the command."""
Check = Callable[[Path], str | None]
"""Looks at what a command that succeeded left behind; a complaint, or None."""


@dataclass(frozen=True)
class Case:
    """A command in a folder."""

    kind: str
    name: str
    """What is bad about it, so that it can be found again."""
    arguments: Sequence[str]
    allowed: frozenset[int]
    """Exit codes that fit."""
    prepare: Prepare = lambda folder: None
    check: Check = lambda folder: None
    environment: Mapping[str, str] = field(default_factory=dict)
    input: bytes | None = None
    """What stands on standard input; nothing by default, None closes it."""
    memory: int | None = None
    """Bytes of address space (``ulimit -v``)."""
    fresh: bool = False
    """Start Python anew, for surroundings that it looks at when it starts."""


@dataclass(frozen=True)
class Result:
    """How a command ended."""

    code: int | None
    """None if it had to be stopped; negative for a signal."""
    stderr: str
    stdout: str = ""


def complaint(case: Case, result: Result, folder: Path) -> str | None:
    """What is wrong with the way in which a command ended: its first word names the fault."""
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
