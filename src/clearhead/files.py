"""Files that are written whole or not at all, and checksums of those that are read back."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

_PIECE = 1 << 20


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write that appears under its name only when it is complete: temporary, fsync, rename, fsync.

    A reader, or a crash, sees all of it or the old one; if the block fails, nothing is left behind. A link stays one:
    the file that it names is replaced. What is no file (a device, a pipe) is never replaced: it is written to.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        with path.open("wb") as stream:
            yield stream
        return
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:200]}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that a reader, or a crash, sees all of it or the old one."""
    with whole_file(path) as stream:
        stream.write(content)


def appear(unfinished: Path, path: Path) -> None:
    """Give a file that is complete now its name: fsync, rename, fsync."""
    with unfinished.open("rb") as stream:
        os.fsync(stream.fileno())
    path = path.resolve()  # a link stays a link
    unfinished.replace(path)
    _sync_folder(path.parent)


def exists(path: str | Path) -> bool:
    """Whether there is a file or folder of this name; a name that none could have is no error."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # too long, or with a null byte
        return False


def sha256_of(path: Path) -> str:
    """The checksum of a file, read piece by piece."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for piece in iter(partial(stream.read, _PIECE), b""):
            digest.update(piece)
    return digest.hexdigest()


def _sync_folder(folder: Path) -> None:
    """Make a rename last, where the system lets a folder be synced."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
