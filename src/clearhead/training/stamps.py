"""When files were last written, and how large they are: what has not changed since it was read is not read again.

A file that was written in the last seconds before it was noted has no stamp: it could be written again within the same
tick of the clock, and would look the same (git does so too).
"""

import hashlib
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from clearhead.files import write_whole

NAME = "stamps.json"
RECENT = 2.0
"""Seconds in which a clock of files may stand still."""


@dataclass(frozen=True)
class Stamps:
    """Size and time of the last change (nanoseconds) of files, by path."""

    known: dict[str, tuple[int, int]] = field(default_factory=dict)

    def unchanged(self, path: Path) -> bool:
        """Whether a file is as it was when it was read."""
        return _stamp(path) is not None and self.known.get(str(path)) == _stamp(path)

    def joined(self, others: "Stamps") -> "Stamps":
        """These and others."""
        return Stamps(self.known | others.known)


def stamps_of(paths: Iterable[Path]) -> Stamps:
    """Stamps of these files as they are, but for those that were written just now."""
    late = time.time_ns() - int(RECENT * 1e9)
    found = {str(path): stamp for path in paths if (stamp := _stamp(path)) is not None}
    return Stamps({name: stamp for name, stamp in found.items() if stamp[1] < late})


def write_stamps(folder: Path, stamps: Stamps) -> None:
    """Keep them in a folder."""
    kept = {"files": stamps.known}
    write_whole(folder / NAME, json.dumps(kept | {"checksum": _checksum(stamps)}).encode())


def read_stamps(folder: Path) -> Stamps:
    """Those that are kept there; none if they cannot be read, so that everything is read again."""
    try:
        kept = json.loads((folder / NAME).read_bytes())
        stamps = Stamps({name: (size, time_) for name, (size, time_) in kept["files"].items()})
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return Stamps()
    return stamps if kept.get("checksum") == _checksum(stamps) else Stamps()


def _checksum(stamps: Stamps) -> str:
    return hashlib.sha256(json.dumps(sorted(stamps.known.items())).encode()).hexdigest()


def _stamp(path: Path) -> tuple[int, int] | None:
    """None for what is no file."""
    try:
        return (found.st_size, found.st_mtime_ns) if path.is_file() and (found := path.stat()) else None
    except (OSError, ValueError):
        return None
