"""Lines of text: UTF-8, LF or CRLF, with or without a BOM, plain or gzipped, from a file or a pipe."""

import gzip
import io
import shlex
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

from clearhead.data.inputs import STDIN, open_input, shown_input
from clearhead.data.stream import LONGEST
from clearhead.errors import DataError

_BOM = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"
"""How gzipped bytes begin; UTF-8 never does."""
_PIECE = 1 << 18
"""Bytes that are read, and decoded, at once."""
Watch = Callable[[memoryview], object]
"""Is shown every byte of an input as it stands there (gzipped, if it is), in order, while its lines are read."""
_MARKS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
"""Byte order marks of other encodings; the longer ones first."""


def read_lines(path: str | Path) -> Iterator[str]:
    """The lines of an input, without their ends. Only LF ends a line: other separators of Unicode are text.

    What is no text in UTF-8, a damaged gzip file and a line without end are errors that name file and line.
    """
    for lines in read_blocks(path):
        yield from lines


def read_blocks(path: str | Path, watch: Watch | None = None) -> Iterator[list[str]]:
    """The same lines, as many at once as are read at once: decoding and splitting them together is far faster.

    All lines before an error come first.
    """
    for raw in raw_blocks(path, watch):
        yield from raw.decoded()


@dataclass(frozen=True)
class RawLines:
    """Lines of an input as they stand there, to be decoded by whoever wants them."""

    name: str
    """What messages call the input."""
    before: int
    """Lines that stand before these."""
    content: bytes
    """Without the end of the last line."""

    def decoded(self) -> Iterator[list[str]]:
        """The lines as text; if one is no text, those before it, then an error."""
        return _decoded_block(self.content, self.name, self.before)


def raw_blocks(path: str | Path, watch: Watch | None = None) -> Iterator[RawLines]:
    """The lines of an input, many at once, before they are decoded."""
    name, number = shown_input(path), 0
    try:
        with open_input(path) as raw, _unzipped(_watched(raw, watch), name) as stream:
            refuse_other_encodings(stream.peek(1 << 12)[: 1 << 12], name)
            for block in _whole_lines(stream):
                yield RawLines(name, number, block)
                number += block.count(b"\n") + 1
    except _EndlessLine as error:
        raise DataError(_too_long(error.beginning, name, number + 1)) from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(_damaged(error, name, number)) from None
    except OSError as error:
        raise DataError(f"{name}: cannot be read: {error.strerror or error}") from None


class _EndlessLine(Exception):
    """A line is longer than any that is read."""

    def __init__(self, beginning: bytes) -> None:
        super().__init__()
        self.beginning = beginning


def _whole_lines(stream: io.BufferedReader) -> Iterator[bytes]:
    """The bytes of a stream, cut only where lines end; the last LF of each part is left out."""
    begun = bytearray()  # of a line whose end is not there yet
    for piece in iter(partial(stream.read1, _PIECE), b""):
        first, end = piece.find(b"\n") + 1, piece.rfind(b"\n") + 1
        if len(begun) + (first or len(piece)) > LONGEST:  # only the first line of a piece can have begun before it
            raise _EndlessLine(bytes(begun) + piece)
        if end:
            yield bytes(begun) + piece[: end - 1]
            begun.clear()
        begun += piece[end:]
    if begun:
        yield bytes(begun)


def _decoded_block(block: bytes, name: str, before: int) -> Iterator[list[str]]:
    """The lines of some bytes that ``before`` lines come before; if one is no text, those before it, then an error."""
    if before:
        try:
            text = block.decode("utf-8")
        except UnicodeDecodeError:
            pass  # line by line, to say which it is
        else:
            lines = text.split("\n")
            yield [line.removesuffix("\r") for line in lines] if "\r" in text else lines
            return
    lines = []
    for number, line in enumerate(block.split(b"\n"), start=before + 1):
        try:
            lines.append(decoded(line, name, number))
        except DataError:
            yield lines
            raise
    yield lines


class _Watched(io.RawIOBase):
    """The bytes of another stream, each of which is shown on its way."""

    def __init__(self, stream: BinaryIO, watch: Watch) -> None:
        self._stream, self._watch = cast("io.BufferedReader", stream), watch

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = self._stream.readinto1(buffer)
        self._watch(memoryview(buffer)[:size])
        return size


def _watched(raw: BinaryIO, watch: Watch | None) -> BinaryIO:
    return raw if watch is None else io.BufferedReader(_Watched(raw, watch), 1 << 16)


def first_line(path: str | Path) -> str | None:
    """The first line of an input, None if it is empty."""
    return next(read_lines(path), None)


def decoded(raw: bytes, name: str, number: int) -> str:
    """A line as text, without BOM and CR; bytes that are not UTF-8 are an error that says where."""
    if number == 1:
        refuse_other_encodings(raw, name)
    line = raw.removeprefix(_BOM) if number == 1 else raw
    line = line.removesuffix(b"\r")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name}, line {number}: is not UTF-8 (byte {error.start + 1} of the line is 0x{line[error.start]:02x}): "
            f"convert it: {_iconv('LATIN1', name)} (or whatever it is instead of LATIN1)"
        ) from None


def refuse_other_encodings(beginning: bytes, name: str) -> None:
    """Name the encoding of a text that is not UTF-8, if its first bytes tell."""
    found = next((encoding for mark, encoding in _MARKS.items() if beginning.startswith(mark)), None)
    found = found or _by_zeros(beginning)
    if found is not None:
        raise DataError(f"{name}: is {found}, not UTF-8: convert it: {_iconv(found, name)}")


def _by_zeros(beginning: bytes) -> str | None:
    """UTF-16 or UTF-32 without a mark: Latin letters have their zeros always at the same place."""
    if len(beginning) < 8:
        return None
    for width, encoding in ((4, "UTF-32"), (2, "UTF-16")):
        zeros = [beginning[place::width].count(0) / len(beginning[place::width]) for place in range(width)]
        for letter, order in ((0, "LE"), (width - 1, "BE")):
            if zeros[letter] < 0.1 and min(zeros[:letter] + zeros[letter + 1 :]) > 0.9:
                return encoding + order
    return None


def _iconv(encoding: str, name: str) -> str:
    file = shlex.quote(name) if name not in ("standard input", STDIN) else "FILE"
    return f"iconv -f {encoding} -t UTF-8 {file} > NEW"


def _too_long(raw: bytes, name: str, number: int) -> str:
    reason = "each example stands on a line of its own"
    if b"\r" in raw:
        reason = f"its lines seem to end with CR alone, as on old Macs: tr '\\r' '\\n' < {shlex.quote(name)} > NEW"
    return f"{name}, line {number}: has more than {LONGEST:,} bytes: {reason}"


def _damaged(error: Exception, name: str, number: int) -> str:
    after = f"somewhere after line {number:,}" if number else "at its beginning"
    if isinstance(error, gzip.BadGzipFile) and "Not a gzipped file" in str(error):
        if number:
            return f"{name}: is not a whole gzip file (something that is not gzip follows its end): fetch it again"
        return f"{name}: is not a whole gzip file (it is called .gz, but is not gzipped): rename it, or fetch it again"
    reason = "it is cut off" if isinstance(error, EOFError) else "it is damaged"
    return f"{name}: is not a whole gzip file ({reason} {after}: {error}): fetch or compress it again"


def _unzipped(raw: BinaryIO, name: str) -> io.BufferedReader:
    stream = cast("io.BufferedReader", raw)
    if name.endswith(".gz") or stream.peek(2)[:2] == _GZIP:
        return io.BufferedReader(cast("io.RawIOBase", gzip.GzipFile(fileobj=raw)), 1 << 16)
    return stream
