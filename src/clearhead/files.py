"""Atomic writes of files and folders, checksums of files, and files by a pattern."""

import glob
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

_PIECE = 1 << 20


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that appears under its name only when it is complete: temporary file, fsync, rename, fsync.

    After a crash, a reader sees either the new content or the old one; if the block fails, nothing is left behind.
    Through a link, the file that it points to is replaced. A device or a pipe is written to, never replaced.
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
    """Write a file atomically, as ``whole_file`` does."""
    with whole_file(path) as stream:
        stream.write(content)


def appear(unfinished: Path, path: Path) -> None:
    """Rename a file that is now complete: fsync, rename, fsync."""
    with unfinished.open("rb") as stream:
        os.fsync(stream.fileno())
    path = path.resolve()  # replace what a link points to, not the link
    unfinished.replace(path)
    _sync_folder(path.parent)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Fill a folder that appears under its name only when it is complete: it is built beside it, then renamed.

    A folder that is there already is replaced in the end. If the block fails, nothing is left behind, and the old
    folder stays as it was.
    """
    path = path.resolve()
    aside = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name[:200]}."))
    try:
        building = aside / "new"
        building.mkdir()
        yield building
        for file in building.rglob("*"):
            if file.is_file():
                file.chmod(0o644)
                with file.open("rb") as stream:
                    os.fsync(stream.fileno())
        old = aside / "old"
        if path.exists():
            path.rename(old)
        try:
            building.rename(path)
        except OSError:
            if old.exists():
                old.rename(path)
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    _sync_folder(path.parent)


def exists(path: str | Path) -> bool:
    """Whether there is a file or folder of this name; False for an impossible name."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # too long, or with a null byte
        return False


def is_pattern(word: str | Path) -> bool:
    """Whether a word is a pattern for names of files (``in/*.txt``): not if there is a file of this very name."""
    return glob.has_magic(str(word)) and not exists(word)


def matching(word: str | Path) -> list[Path]:
    """The files that a pattern names, in the order of their names; none if the word is no pattern."""
    if not is_pattern(word):
        return []
    try:
        found = map(Path, glob.glob(str(word), recursive=True))  # noqa: PTH207 - the pattern may be absolute
        return sorted(path for path in found if not path.is_dir())
    except (OSError, ValueError):
        return []


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, read piece by piece."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for piece in iter(partial(stream.read, _PIECE), b""):
            digest.update(piece)
    return digest.hexdigest()


def _sync_folder(folder: Path) -> None:
    """Make a rename durable, where the system can sync a folder."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
