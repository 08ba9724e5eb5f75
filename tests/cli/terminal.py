"""The command line at a real terminal, of 80 columns or as many as a test wants; either output may go to a file."""

import errno
import fcntl
import os
import pty
import struct
import termios
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cli.forked import Forked
from tests.cli.test_train import ENVIRONMENT

COLUMNS, ROWS = 80, 24
PLAIN = {
    name: value for name, value in ENVIRONMENT.items() if name not in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
}
"""The surroundings, with nothing in them that says how wide or how colourful a terminal is."""


@dataclass(frozen=True)
class Shown:
    """How a command ended, and where its words went."""

    code: int
    terminal: str
    """What the screen was sent, without carriage returns."""
    out: str | None
    """What the file of ``> FILE`` holds."""
    err: str | None
    """What the file of ``2> FILE`` holds."""


def at_terminal(
    arguments: Sequence[str],
    *,
    out: Path | None = None,
    err: Path | None = None,
    cwd: Path | None = None,
    columns: int = COLUMNS,
) -> Shown:
    """Type ``clearhead …`` at a terminal, with ``> out`` and ``2> err`` where they are given."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    files = [file.open("wb") if file is not None else None for file in (out, err)]
    screen: list[bytes] = []
    reader = threading.Thread(target=_read, args=(master, screen))
    try:
        process = Forked(
            arguments,
            stdin=slave,
            stdout=files[0] or slave,
            stderr=files[1] or slave,
            env=PLAIN | {"TERM": "xterm"},
            cwd=cwd,
            start_new_session=True,
        )
        os.close(slave)
        reader.start()
        code = process.wait(timeout=120)
        reader.join(timeout=30)
    finally:
        os.close(master)
        for file in files:
            if file is not None:
                file.close()
    texts = [None if file is None else file.read_text(encoding="utf-8") for file in (out, err)]
    return Shown(code, b"".join(screen).decode().replace("\r", ""), *texts)


def _read(master: int, screen: list[bytes]) -> None:
    while True:
        try:
            piece = os.read(master, 1 << 16)
        except OSError as error:  # Linux says EIO once nobody holds the other end
            assert error.errno in (errno.EIO, errno.EBADF)
            return
        if not piece:
            return
        screen.append(piece)
