"""Lines of text files: UTF-8, LF or CRLF, with or without a BOM, plain or gzipped."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from clearhead.errors import DataError

_BOM = b"\xef\xbb\xbf"


def read_lines(path: str | Path) -> Iterator[str]:
    """The lines of a file, without their ends. Only LF ends a line: other separators of Unicode are text.

    Bytes that are not UTF-8 are an error that names file, line and byte.
    """
    path = Path(path)
    try:
        with _open(path) as stream:
            for number, raw in enumerate(stream, start=1):
                yield decoded(raw.removesuffix(b"\n"), str(path), number)
    except (gzip.BadGzipFile, EOFError) as error:
        raise DataError(f"{path}: is not a whole gzip file ({error})") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None


def decoded(raw: bytes, name: str, number: int) -> str:
    """A line as text, without BOM and CR; bytes that are not UTF-8 are an error that says where."""
    line = raw.removeprefix(_BOM) if number == 1 else raw
    line = line.removesuffix(b"\r")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name}, line {number}: is not UTF-8 (byte {error.start + 1} of the line is 0x{line[error.start]:02x}): "
            "convert it, for instance with iconv"
        ) from None


def _open(path: Path) -> BinaryIO | gzip.GzipFile:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")
