"""Lines as they arrive through a pipe: each at once, and a word when there is none at the moment."""

import os
import select
from collections.abc import Iterator

from clearhead.errors import DataError

_PIECE = 1 << 16
LONGEST = 16_000_000
"""Bytes of a line, at most: an endless line would fill the memory."""


def arriving_lines(descriptor: int, name: str) -> Iterator[bytes | None]:
    """The lines of a pipe or a file, without their LF; None whenever reading on would mean waiting."""
    rest = b""
    while True:
        if not select.select([descriptor], [], [], 0)[0]:
            yield None
        piece = os.read(descriptor, _PIECE)
        if not piece:
            break
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
        if len(rest) > LONGEST:
            raise DataError(f"{name}: a line has more than {LONGEST:,} bytes")
    if rest:
        yield rest
