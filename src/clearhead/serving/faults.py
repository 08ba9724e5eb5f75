"""Why a request was not answered. Each fault knows the status that HTTP has for it, and a short name."""

from typing import ClassVar

from clearhead.errors import ClearheadError, RecipeError


class Fault(ClearheadError):
    """The base class: its message is written for the client."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "failed"


class Busy(Fault):
    """There is no room for more work now.

    Args:
        message: what is full.
        retry_after: seconds after which trying again makes sense.
    """

    status, code = 503, "busy"

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class TooLate(Fault):
    """The answer was not ready by the deadline."""

    status, code = 504, "too_late"


class WorkerLost(Fault):
    """The process that worked on it ended, and so did the one that tried again; or no process has the model."""

    status, code = 503, "worker_lost"


class UnknownModel(Fault):
    """No model has this name."""

    status, code = 404, "unknown_model"


class Refused(Fault):
    """The request asks for what cannot be done.

    Args:
        where: the place of the mistake in the request, as ``settings.beam_size`` or ``lines.3``; may be empty.
        message: what is wrong, and what is allowed.
    """

    status, code = 422, "refused"

    def __init__(self, where: str, message: str) -> None:
        super().__init__(message)
        self.where, self.message = where, message


def refused_settings(error: RecipeError) -> Refused:
    """The first problem of several, with its place if it is one of the settings."""
    first = error.problems[0]
    section, _, name = first.key.partition(" = ")[0].partition(".")
    return Refused(f"settings.{name}", first.message) if section == "decoding" else Refused("", str(first))
