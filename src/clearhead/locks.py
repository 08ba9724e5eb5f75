"""A lock on a folder, for one process at a time; the system releases it when its owner dies, however it dies."""

import errno
import json
import os
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from clearhead.errors import ClearheadError

NAME = ".lock"
_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
"""Errors of a file system without locks; then nothing is locked."""
_held: dict[Path, int] = {}
"""Folders that this process has locked, and the thread that did it; the same thread may lock again."""


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Lock a folder, creating it if necessary; raises at once if another process has locked it.

    If nothing else is written to a new folder, it is removed again, together with the parents created for it.
    """
    key = folder.absolute()
    if _held.get(key) == threading.get_ident():
        yield
        return
    if key in _held:
        raise ClearheadError(_refusal(folder))
    made = _make(folder)
    try:
        descriptor = _locked(folder)
    except BaseException:
        _remove_empty(made)
        raise
    _held[key] = threading.get_ident()
    try:
        yield
    finally:
        del _held[key]
        with suppress(OSError):
            # before it is released: another process that opened this file checks whether it still has this name
            (folder / NAME).unlink()
        os.close(descriptor)
        _remove_empty(made)


def _locked(folder: Path) -> int:
    """Open the lock file, lock it, and write our process id to it."""
    while True:
        descriptor = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if not _lock(descriptor):
                raise ClearheadError(_refusal(folder))
            if _is_still(descriptor, folder / NAME):
                owner = {"pid": os.getpid(), "host": platform.node(), "since": f"{datetime.now():%Y-%m-%d %H:%M:%S}"}
                os.ftruncate(descriptor, 0)
                os.write(descriptor, json.dumps(owner).encode())
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the previous owner removed it while we opened it
        folder.mkdir(parents=True, exist_ok=True)


def _lock(descriptor: int) -> bool:
    try:
        import fcntl
    except ImportError:  # not on Windows
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _WITHOUT_LOCKS:
            raise
    return True


def _is_still(descriptor: int, path: Path) -> bool:
    """Whether an open file still has this name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _refusal(folder: Path) -> str:
    """Say who has locked the folder, and what to do."""
    owner = "another process"
    with suppress(OSError, ValueError, TypeError, KeyError):
        written = json.loads((folder / NAME).read_text(encoding="utf-8"))
        owner = f"process {int(written['pid'])} on {written['host']} since {written['since']}"
    return f"{folder}: is in use by {owner}: wait for it to finish, stop it, or choose another -o"


def _make(folder: Path) -> list[Path]:
    """Create a folder; return the folders that did not exist, the innermost first."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing


def _remove_empty(folders: list[Path]) -> None:
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()
