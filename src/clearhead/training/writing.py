"""What is said when a run cannot write."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clearhead.errors import ClearheadError


@contextmanager
def telling(path: Path) -> Iterator[None]:
    """Whatever the system refuses while this file is written becomes one line that names it, and the way out."""
    try:
        yield
    except OSError as error:
        raise ClearheadError(
            f"{path}: cannot be written ({error.strerror or error}); what was saved before is intact: "
            "fix this, then restart with --resume"
        ) from error
