"""Where bytes come from: files, standard input (``-``), named pipes and ``<(…)``.

What can be read only once is kept, in a temporary file without a name, so that every reader may start at its beginning
again; nothing is left behind, however the process ends.
"""

import io
import os
import select
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from clearhead.errors import DataError
from clearhead.machine import shown_bytes

STDIN = "-"
"""The name of standard input, wherever data are read."""
PATIENCE = 10.0
"""Seconds that a named pipe may go without anybody who writes to it."""
_SAME_AS_STDIN = (STDIN, "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
_PIECE = 1 << 20
ROOM = 256 << 20
"""Bytes of the temporary disk that are left free."""
_kept: dict[str, tuple[Any, "_Kept"]] = {}
"""What was read once, by name, with the stream that it came from."""


def shown_input(name: str | Path) -> str:
    """What messages call an input."""
    return "standard input" if str(name) == STDIN else str(name)


def reads_once(name: str | Path) -> bool:
    """Whether an input is gone once it is read: standard input, a pipe, ``<(…)``."""
    if str(name) == STDIN:
        return True
    with suppress(OSError, ValueError):
        mode = Path(name).stat().st_mode
        return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
    return False


def open_input(name: str | Path) -> BinaryIO:
    """The bytes of an input from its beginning, however often it was opened before."""
    if not reads_once(name):
        return _open_file(Path(name))
    key = STDIN if str(name) in _SAME_AS_STDIN else str(name)
    origin = sys.stdin if key == STDIN else None
    if key not in _kept or _kept[key][0] is not origin:
        _kept[key] = origin, _standard_input(shown_input(name)) if key == STDIN else _spooled(_pipe(key), key)
    return io.BufferedReader(_Again(_kept[key][1]))


def _open_file(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except IsADirectoryError:
        raise DataError(f"{path}: is a folder, not a file of data") from None


class _Kept:
    """An open file that is read from any place, and closed when nobody needs it any more."""

    def __init__(self, file: BinaryIO) -> None:
        self.descriptor = os.dup(file.fileno())

    def __del__(self) -> None:
        os.close(self.descriptor)


class _Again(io.RawIOBase):
    """A reader with its own place in a file that others read too."""

    def __init__(self, kept: _Kept) -> None:
        self._kept, self._at = kept, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = os.pread(self._kept.descriptor, len(buffer), self._at)
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)


def _standard_input(name: str) -> _Kept:
    """Standard input: the file that is redirected to it, or what comes through the pipe."""
    if sys.stdin is None or sys.stdin.closed:
        raise DataError(f"{name}: is closed: name a file, or pipe the data in")
    if sys.stdin.isatty():
        raise DataError(f"{name}: is a terminal: name a file, or pipe the data in (zcat pairs.tsv.gz | clearhead …)")
    stream = sys.stdin.buffer
    with suppress(OSError, ValueError):  # no descriptor, or one that cannot be asked
        if stat.S_ISREG(os.fstat(stream.fileno()).st_mode) and not stream.tell():
            return _Kept(stream)
    return _spooled(iter(partial(stream.read, _PIECE), b""), name)


def _pipe(name: str) -> Iterator[bytes]:
    """The bytes of a named pipe or a device; a pipe that nobody writes to is refused after a while."""
    mode = Path(name).stat().st_mode
    if stat.S_ISCHR(mode) and name != os.devnull:
        raise DataError(f"{name}: is a device, not a file of data")
    descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
    try:
        started, written = time.monotonic(), not stat.S_ISFIFO(mode)
        while True:
            try:
                piece = os.read(descriptor, _PIECE)
            except BlockingIOError:  # somebody has it open, and is busy
                written = True
                select.select([descriptor], [], [])
                continue
            if piece:
                written = True
                yield piece
            elif written:
                return
            elif time.monotonic() - started > PATIENCE:
                raise DataError(
                    f"{name}: is a named pipe that nobody has written to for {PATIENCE:.0f} seconds: "
                    "start the command that writes to it first, or give a file"
                )
            else:
                time.sleep(0.02)
    finally:
        os.close(descriptor)


def _spooled(pieces: Iterator[bytes], name: str) -> _Kept:
    """A temporary file that holds the pieces; it has no name, and is gone when the process is."""
    folder, size, checked = tempfile.gettempdir(), 0, 0
    with tempfile.TemporaryFile() as file:
        for piece in pieces:
            if size >= checked:
                checked = size + (64 << 20)
                free = shutil.disk_usage(folder).free
                if free < ROOM:
                    raise DataError(_no_room(name, folder, size, free))
            try:
                file.write(piece)
                file.flush()
            except OSError as error:
                raise DataError(f"{_no_room(name, folder, size, None)} ({error.strerror})") from None
            size += len(piece)
        return _Kept(file)


def _no_room(name: str, folder: str, size: int, free: int | None) -> str:
    left = "" if free is None else f", {shown_bytes(free)} are free"
    return (
        f"{name}: does not fit into {folder}, where it is kept to be read twice ({shown_bytes(size)} so far{left}): "
        "save it to a file and name that, or set TMPDIR to a folder with more room"
    )
