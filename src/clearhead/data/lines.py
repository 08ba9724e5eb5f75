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
                line = raw.removeprefix(_BOM) if number == 1 else raw
                line = line.removesuffix(b"\n").removesuffix(b"\r")
                try:
                    yield line.decode("utf-8")
                except UnicodeDecodeError as error:
                    byte = line[error.start]
                    raise DataError(
                        f"{path}, line {number}: is not UTF-8 (byte {error.start + 1} of the line is 0x{byte:02x}): "
                        "convert the file, for instance with iconv"
                    ) from None
    except (gzip.BadGzipFile, EOFError) as error:
        raise DataError(f"{path}: is not a whole gzip file ({error})") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None


def _open(path: Path) -> BinaryIO | gzip.GzipFile:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")
