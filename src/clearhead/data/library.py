"""Calls into the ``tokenizers`` library whose failures become errors of ours.

It is written in Rust: what it does not expect is a panic, which is no ``Exception`` in Python, and prints a backtrace.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from clearhead.errors import DataError


@contextmanager
def library(what: str) -> Iterator[None]:
    """Run a call; whatever goes wrong in it is a ``DataError`` that says ``what``. Its backtraces are not shown."""
    try:
        with _unheard():
            yield
    except Exception as error:  # the library raises bare Exception for whatever it cannot read
        raise DataError(f"{what}: {_shown(error)}") from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise DataError(f"{what}: {_shown(error)}") from None


def _shown(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 200 else text[:197] + "…"


@contextmanager
def _unheard() -> Iterator[None]:
    """Drop what is written to the process's standard error, below Python; nothing happens where there is none."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.flush()
    try:
        kept = os.dup(2)
    except OSError:
        yield
        return
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        os.close(nowhere)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
