"""One clear error when a file of a run cannot be written."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clearhead.errors import ClearheadError


@contextmanager
def clear_write_errors(path: Path) -> Iterator[None]:
    """Turn an ``OSError`` while this file is written into one line that names it and says what to do."""
    try:
        yield
    except OSError as error:
        raise ClearheadError(
            f"{path}: cannot be written ({error.strerror or error}); what was saved before is intact: "
            "fix this, then restart with --resume"
        ) from error
