"""The exceptions that clearhead raises on purpose, with the exit code of the command line for each.

    ClearheadError            1  something failed
    ├── MissingExtra          1  an optional package is not installed
    ├── RecipeError           2  the recipe or the command line is wrong: all problems at once
    ├── UnsupportedModel      2  an imported model needs something that clearhead does not have
    ├── DataError             3  the input cannot be used
    │   ├── TooLong           3  a sequence is longer than the model can take
    │   └── ModelFileError    3  a model file cannot be used
    │       ├── DamagedFile      its content does not match its own checksum
    │       ├── TruncatedFile    it ends too early
    │       ├── ForeignFile      it is not a clearhead model at all
    │       └── NewerFile        it was written by a newer clearhead
    ├── DoesNotFit            4  there is not enough memory
    ├── DeviceError           4  the requested device is not available
    ├── Diverged              5  the loss is no longer a finite number
    └── Interrupted     130, 143  stopped by SIGINT or SIGTERM, after saving

A message says what is wrong, where, and what to do. Nothing here imports torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any


class ClearheadError(Exception):
    """The base class of all errors that clearhead raises on purpose; the command line prints its message."""

    exit_code = 1
    process: int | None = None
    """The process that alone met with it, of several that train together."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Send what it is to another process, not how it was made: constructors take other arguments."""
        return _as_it_was, (type(self), self.args, self.__dict__)


def _as_it_was(kind: type[ClearheadError], args: tuple[Any, ...], state: dict[str, Any]) -> ClearheadError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class PartnerError(ClearheadError):
    """What all processes that train together find alike, or that another one of them failed."""


class MissingExtra(ClearheadError):
    """An optional package is not installed; the message says how to install it.

    Args:
        what: what needs the package.
        package: its name.
        extra: the extra of clearhead that installs it.
    """

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(f'{what} needs the package {package}: pip install "clearhead[{extra}]"')


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a recipe."""

    where: str
    """File and line, preset, or command line."""
    key: str
    """The setting as the user wrote it, such as ``model.encoder.layers``."""
    message: str
    """What is wrong and what is allowed."""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.where, self.key, self.message) if part)


class RecipeError(ClearheadError):
    """A recipe that cannot be built; reports every problem, not just the first.

    Args:
        problems: all problems that were found.
    """

    exit_code = 2

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class UnsupportedModel(ClearheadError):
    """An imported model has a setting or a weight that clearhead cannot represent exactly."""

    exit_code = 2


class DataError(ClearheadError):
    """The input cannot be used."""

    exit_code = 3


class TooLong(DataError):
    """A sequence is longer than the model's position table."""


class ModelFileError(DataError):
    """A model file cannot be used."""


class DamagedFile(ModelFileError):
    """The content does not match the checksum written with it."""


class TruncatedFile(ModelFileError):
    """The file ends before the content that its header announces."""


class ForeignFile(ModelFileError):
    """Not a clearhead model."""


class NewerFile(ModelFileError):
    """Written by a newer version, in a format that this one does not know."""


class DoesNotFit(ClearheadError):
    """There is not enough memory."""

    exit_code = 4


class DeviceError(ClearheadError):
    """The requested device is not available on this machine."""

    exit_code = 4


class Diverged(ClearheadError):
    """Training cannot continue: the loss or its gradient is not a finite number, or the loss has exploded."""

    exit_code = 5


class Interrupted(ClearheadError):
    """Stopped by a signal, after everything was saved.

    Args:
        signal: the number of the signal; the exit code is 128 more.
        message: what the command line prints.
    """

    def __init__(self, signal: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """A clause with the nearest known spelling, or an empty string.

    >>> did_you_mean("layrs", ["layers", "width"])
    '; did you mean layers?'
    """
    if len(word) > 100:  # comparing takes time quadratic in the length
        return ""
    by_lower = {name.lower(): name for name in known}
    nearest = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean {by_lower[nearest[0]]}?" if nearest else ""
