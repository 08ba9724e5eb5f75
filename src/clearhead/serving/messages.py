"""The messages between the front process and a worker: JSON objects, each after four bytes with its length.

From the front, ``do`` says what is asked; ``model`` is the number of a loaded version of a model:

    load      model, path, shown, foreign …   → loaded, facts, recipe | unloaded, refused, message
    drop      model
    answer    id, model, settings, n_best, details, verbatim, lines, numbers → id, answers, warnings, ratio
    score     id, model, rows                 → id, scores
    trace     id, model, prompt, ids, top     → id, tokens
    look      id, model, name, line, …        → id, document (JSON as text)
    stream    id, model, settings, verbatim, line → pieces [[id, text], …] again and again, then id, done
    leave     id                              (of a stream that nobody reads any more)

An answer that could not be given comes as ``id, refused {where, message, line}`` or as ``id, failed``.
Nothing is unpickled, and a message has a largest size, so that neither side can make the other allocate without bound.
"""

import json
import struct
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Message = Mapping[str, Any]
LARGEST = 256 << 20
"""Bytes of a message: the document of a long look is the largest."""
_LENGTH = struct.Struct("!I")


class BrokenMessage(Exception):
    """What arrived is no message: the other side is not what it should be."""


def kind_and_place(error: Exception) -> str:
    """What is told of an unforeseen error: its message may hold what was asked, which nobody logs."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(place.filename).name}, line {place.lineno}"


def framed(message: Message) -> bytes:
    """A message as bytes."""
    body = json.dumps(message, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    if len(body) > LARGEST:
        raise BrokenMessage(f"a message of {len(body):,} bytes; up to {LARGEST:,} are sent")
    return _LENGTH.pack(len(body)) + body


class Frames:
    """Puts messages together from bytes as they arrive."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Yield the messages that are complete now."""
        held = self._bytes
        held += data
        start = 0
        try:
            while len(held) - start >= _LENGTH.size:
                (size,) = _LENGTH.unpack_from(held, start)
                if size > LARGEST:
                    raise BrokenMessage(f"a message of {size:,} bytes; up to {LARGEST:,} are read")
                end = start + _LENGTH.size + size
                if len(held) < end:
                    return
                body = held[start + _LENGTH.size : end]
                start = end
                yield _parsed(body)
        finally:
            del held[:start]


def _parsed(body: bytearray) -> dict[str, Any]:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        raise BrokenMessage("a message that is not JSON") from None
    if not isinstance(message, dict):
        raise BrokenMessage("a message that is no object")
    return message
