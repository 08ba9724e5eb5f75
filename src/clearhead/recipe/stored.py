"""What a model file says of itself: its header, read and checked without torch and before anything is allocated for it.

The layout is that of the safetensors format: eight bytes with the length of a JSON header, the header, the tensors. Our
part of the header, ``__metadata__``, holds ``format`` and ``format_version``, ``recipe``, ``tokenizers`` and (if the
model was tuned) ``origin`` as JSON, and ``fingerprint``. A header is believed only as far as it agrees with itself and
with the size of the file, and only up to the limits below, so that what a file makes us allocate is bounded by what it
really holds.
"""

import json
import os
import re
import stat
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

from clearhead.errors import DamagedFile, ForeignFile, ModelFileError, NewerFile, TruncatedFile

FORMAT = "clearhead"
VERSION = 1
LARGEST_HEADER = 64 << 20
"""Bytes of the whole header; most of it are the tokenizers."""
LARGEST_RECIPE = 1 << 20
"""Characters of the recipe's JSON."""
MOST_TENSORS = 200_000
BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
"""Size of a number of each type that a model file may hold."""
SIDES = ("shared", "source", "target")


@dataclass(frozen=True)
class TensorEntry:
    """What a header says of one tensor."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Header:
    """The header of a model file, checked: whole, ours, of a known version, and true to the size of the file."""

    path: Path
    metadata: Mapping[str, str]
    tensors: Mapping[str, TensorEntry]
    file_size: int

    def recipe_table(self) -> dict[str, Any]:
        """The recipe that the model was built from, as a nested table, not validated yet."""
        text = self.metadata.get("recipe", "")
        if len(text) > LARGEST_RECIPE:
            raise ModelFileError(f"{self.path}: its recipe has {len(text):,} characters; {LARGEST_RECIPE:,} are read")
        return self._table("recipe")

    def tokenizers(self) -> dict[str, str]:
        """``tokenizer.json`` texts by side."""
        table = self._table("tokenizers")
        for side, text in table.items():
            if side not in SIDES or not isinstance(text, str):
                raise ModelFileError(
                    f"{self.path}: is damaged (its tokenizers are not texts of {', '.join(SIDES)}): "
                    "fetch or train it again"
                )
        return table

    def origin(self) -> dict[str, str]:
        """``name`` and ``fingerprint`` of the model that this one was tuned from; empty if it started from scratch."""
        table = self._table("origin") if "origin" in self.metadata else {}
        if not all(isinstance(value, str) for value in table.values()):
            raise DamagedFile(f"{self.path}: has no readable origin: fetch or train it again")
        return table

    def _table(self, name: str) -> dict[str, Any]:
        try:
            table = json.loads(self.metadata[name], object_pairs_hook=_once)
        except (KeyError, ValueError, RecursionError, MemoryError):
            table = None
        if not isinstance(table, dict) or not _is_text(table):
            raise DamagedFile(f"{self.path}: has no readable {name}: fetch or train it again")
        return table


def read_header(path: str | Path) -> Header:
    """Read the header of a model file; one that is damaged, truncated, foreign or newer is named as such."""
    path = Path(path)
    try:
        with path.open("rb") as stream:
            return header_of(stream, path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ModelFileError(f"{path}: cannot be read: {reason}") from None


def header_of(stream: BinaryIO, path: Path) -> Header:
    """The header of an open model file; leaves the stream at the first tensor."""
    info = os.fstat(stream.fileno())
    if not stat.S_ISREG(info.st_mode):  # a pipe or a device has no size that a header could be held against
        raise ModelFileError(f"{path}: is no ordinary file: copy the model to a file first")
    if not info.st_size:
        raise TruncatedFile(f"{path}: is empty: fetch or copy it again")
    foreign = ForeignFile(f"{path}: is not a clearhead model (not a safetensors file)")
    beginning = stream.read(9)
    if len(beginning) < 9:
        raise foreign
    (size,) = struct.unpack("<Q", beginning[:8])
    if size < 2 or beginning[8:] != b"{":
        raise foreign
    if size > LARGEST_HEADER:
        raise ForeignFile(f"{path}: is not a clearhead model (a header of {size:,} bytes; {LARGEST_HEADER:,} are read)")
    if info.st_size < 8 + size:
        raise TruncatedFile(f"{path}: is truncated (it ends inside its header): fetch or copy it again")
    header = _parsed(beginning[8:] + stream.read(size - 1), path)
    metadata = _metadata(header.pop("__metadata__", None), path)
    tensors, end = _entries(header, path)
    if info.st_size < 8 + size + end:
        raise TruncatedFile(
            f"{path}: is truncated ({info.st_size:,} of {8 + size + end:,} bytes): fetch or copy it again"
        )
    return Header(path, metadata, tensors, info.st_size)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object in which no name stands twice: two readers could take two different values."""
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a name stands twice")
    return table


def _is_text(value: Any) -> bool:
    """Whether all strings are characters: half of a surrogate pair is none, and no file can hold it."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    return True


def _damaged(path: Path, what: str) -> DamagedFile:
    return DamagedFile(f"{path}: is damaged ({what}): fetch or train it again")


def _parsed(content: bytes, path: Path) -> dict[str, Any]:
    try:
        header = json.loads(content, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        raise _damaged(path, "its header cannot be read") from None
    if not isinstance(header, dict):
        raise _damaged(path, "its header cannot be read")
    return header


def _metadata(metadata: Any, path: Path) -> dict[str, str]:
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise ForeignFile(
            f"{path}: is a safetensors file, but not a clearhead model; "
            "a Hugging Face folder becomes one with `clearhead import`"
        )
    if not all(isinstance(value, str) for value in metadata.values()) or not _is_text(metadata):
        raise _damaged(path, "its metadata are not texts")
    written = metadata.get("format_version", "")
    if not re.fullmatch(r"[0-9]{1,9}", written):
        raise _damaged(path, f"its format version reads {written[:20]!r}")
    if int(written) > VERSION:
        raise NewerFile(
            f"{path}: was written in format {written} by a newer clearhead; this one reads up to format {VERSION}: "
            "upgrade clearhead"
        )
    return metadata


def _entries(header: dict[str, Any], path: Path) -> tuple[dict[str, TensorEntry], int]:
    """What the header says of each tensor, and where the last one ends."""
    if len(header) > MOST_TENSORS:
        raise ModelFileError(f"{path}: names {len(header):,} tensors; up to {MOST_TENSORS:,} are read")
    if not _is_text(list(header)):
        raise _damaged(path, "the name of a tensor is no text")
    entries: dict[str, TensorEntry] = {}
    spans = []
    for name, entry in header.items():
        if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
            raise _damaged(path, "its header cannot be read")
        shape, span = entry["shape"], entry["data_offsets"]
        if not _are_sizes(shape) or not _are_sizes(span) or len(span) != 2 or not isinstance(entry["dtype"], str):
            raise _damaged(path, "its header cannot be read")
        if entry["dtype"] not in BYTES:
            raise _damaged(path, f"{name[:80]} holds numbers of type {entry['dtype'][:20]}")
        if prod(shape) * BYTES[entry["dtype"]] != span[1] - span[0]:
            raise _damaged(path, f"{name[:80]} has another size than its shape")
        entries[name] = TensorEntry(entry["dtype"], tuple(shape))
        spans.append((span[0], span[1]))
    end = 0
    for first, last in sorted(spans):
        if first != end:
            raise _damaged(path, "its tensors overlap, or leave gaps")
        end = last
    return entries, end


def _are_sizes(value: Any) -> bool:
    if not isinstance(value, list) or len(value) > 8:
        return False
    return all(type(size) is int and 0 <= size < 1 << 50 for size in value)
