"""Lines of text: UTF-8, LF or CRLF, with or without a BOM, plain or gzipped, from a file or a pipe."""

import gzip
import io
import shlex
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from clearhead.data.inputs import STDIN, open_input, shown_input
from clearhead.data.stream import LONGEST
from clearhead.errors import DataError

_BOM = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"
"""How gzipped bytes begin; UTF-8 never does."""
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
    name, number = shown_input(path), 0
    try:
        with open_input(path) as raw, _unzipped(raw, name) as stream:
            refuse_other_encodings(stream.peek(1 << 12)[: 1 << 12], name)
            while raw_line := stream.readline(LONGEST + 1):
                number += 1
                if len(raw_line) > LONGEST:
                    raise DataError(_too_long(raw_line, name, number))
                yield decoded(raw_line.removesuffix(b"\n"), name, number)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(_damaged(error, name, number)) from None
    except OSError as error:
        raise DataError(f"{name}: cannot be read: {error.strerror or error}") from None


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
