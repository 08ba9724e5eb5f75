"""Examples that were parsed once, kept on disk to be read again and again: memory stays flat, however many there are.

They are kept in blocks; the texts of a column stand one after the other with NUL between, which no text has, so that a
whole block is written and read by a few calls. The file has no name, and is gone when the process is.
"""

import shutil
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clearhead.data.formats import Block
from clearhead.data.inputs import ROOM
from clearhead.errors import ClearheadError, DataError
from clearhead.machine import shown_bytes

_IN_MEMORY = 8 << 20
"""Bytes that are not worth a file."""
_CHECK_EVERY = 64 << 20
"""Bytes after which the room on the disk is looked at again."""
_BETWEEN = "\0"


@dataclass(frozen=True)
class SpooledBlock:
    """Some examples as they stand in the spool: decoded column by column, when asked for."""

    lines: NDArray[np.int64]
    """(n,) Where they stand in their file."""
    places: NDArray[np.uint64]
    """(n,) What decides which part they belong to."""
    texts: tuple[bytes, ...]
    """Of each column, one after the other."""

    def columns(self) -> Iterator[list[str]]:
        """The n texts of each column."""
        return map(self.column, range(len(self.texts)))

    def column(self, index: int) -> list[str]:
        """The n texts of a column."""
        return self.texts[index].decode("utf-8").split(_BETWEEN) if len(self) else []

    def __len__(self) -> int:
        return len(self.lines)

    @classmethod
    def of(cls, block: Block, places: NDArray[np.uint64]) -> "SpooledBlock":
        """A block as it will stand in the spool."""
        lines = block.lines
        numbers = np.arange(lines.start, lines.stop) if isinstance(lines, range) else np.asarray(lines, dtype=np.int64)
        return cls(numbers, places, tuple(_BETWEEN.join(texts).encode() for texts in block.columns))


class Spool:
    """Examples in the order in which they were added.

    ``name`` is what messages call the data, ``folder`` where the file is made: the system's temporary folder, if none
    is given.
    """

    def __init__(self, name: str, folder: Path | None = None) -> None:
        self._name, self._folder = name, folder
        self._file = tempfile.SpooledTemporaryFile(_IN_MEMORY, dir=None if folder is None else str(folder))  # noqa: SIM115 - closed by release()
        self._size = self._checked = 0
        self._reading = threading.Lock()

    def add(self, block: SpooledBlock) -> None:
        """Append the examples of a block."""
        if not len(block):
            return
        columns = block.texts
        sizes = np.array([len(block), len(columns), *map(len, columns)], dtype=np.int64)
        head = sizes.tobytes() + block.lines.tobytes() + block.places.tobytes()
        try:
            self._require_room()
            for part in (head, *columns):
                self._file.write(part)
                self._size += len(part)
        except OSError as error:
            raise DataError(self._no_room(error.strerror or str(error))) from None

    def __iter__(self) -> Iterator[SpooledBlock]:
        """All blocks from the beginning; several readers do not disturb each other."""
        at = 0
        while at < self._size:
            with self._reading:
                if self._file.closed:
                    raise ClearheadError(
                        "the training examples were released when the run was prepared: read them anew"
                    )
                self._file.seek(at)
                examples, columns = np.frombuffer(self._file.read(16), dtype=np.int64).tolist()
                sizes = np.frombuffer(self._file.read(8 * columns), dtype=np.int64).tolist()
                lines = np.frombuffer(self._file.read(8 * examples), dtype=np.int64)
                places = np.frombuffer(self._file.read(8 * examples), dtype=np.uint64)
                texts = tuple(self._file.read(size) for size in sizes)
                at = self._file.tell()
            yield SpooledBlock(lines, places, texts)

    @property
    def size(self) -> int:
        """Bytes that the examples take."""
        return self._size

    def release(self) -> None:
        """Give the disk space back; nothing can be read any more."""
        self._file.close()

    def __del__(self) -> None:
        self._file.close()

    def _require_room(self) -> None:
        """Refuse to fill the disk to its last byte."""
        if self._size < max(_IN_MEMORY, self._checked):
            return
        self._checked = self._size + _CHECK_EVERY
        free = shutil.disk_usage(self._folder or tempfile.gettempdir()).free
        if free < ROOM:
            raise DataError(self._no_room(f"{shown_bytes(free)} are free"))

    def _no_room(self, reason: str) -> str:
        """What to do if the disk is full, or cannot be written to."""
        if self._folder is not None:
            place, way_out = str(self._folder), "make room there, or choose another folder"
        else:
            place, way_out = "the temporary folder", "make room there, or set TMPDIR to a folder with more"
        return (
            f"{self._name}: its examples do not fit into {place}, where they are kept to be read again "
            f"({shown_bytes(self._size)} so far, {reason}): {way_out}"
        )


class Unread:
    """Stands for training examples that were not read: whoever asks for their texts has made a mistake."""

    size = 0

    def release(self) -> None:
        """Nothing to give back."""

    def __iter__(self) -> Iterator[SpooledBlock]:
        raise AssertionError("the training examples of this corpus were encoded before, and are not read again")
