"""``run.json``: the recipe that a run was asked for, the resolved recipe, and checksums of the prepared data.

It is written when a run is prepared and when it is extended. It is rejected if its own checksum does not match.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from clearhead.errors import DamagedFile, NewerFile
from clearhead.files import sha256_of, write_whole

NAME = "run.json"
FORMAT = 1
Table = dict[str, Any]
"""A recipe as a nested table."""


@dataclass(frozen=True)
class Stage:
    """The steps before ``until``, with a learning rate that follows the schedule over ``total`` steps."""

    until: int
    total: int


@dataclass(frozen=True)
class Checksum:
    """The size of a file in bytes, and its SHA-256."""

    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """Everything known about a run except its weights."""

    asked: Table | None
    """The recipe as it was asked for, before data and budget resolved the rest; None if it was lost."""
    recipe: Table
    """The resolved recipe, the same as in ``recipe.toml``."""
    fingerprint: str
    """Fingerprint of the original data files."""
    files: Mapping[str, Checksum]
    """Checksums of the prepared data, by file name in ``data/``."""
    stages: tuple[Stage, ...]
    """The first stage, and one more for each extension."""
    start: Mapping[str, str] | None = None
    """``name`` and ``fingerprint`` of the model that the run started from; None if it started from scratch."""
    before: Table | None = None
    """The recipe before the last extension, which ``recipe.toml`` still holds if a kill came between the two writes."""

    def extended(self, recipe: Table, asked: Table | None, at: int, steps: int) -> "Manifest":
        """The manifest of a run that continues from step ``at`` to step ``steps``, with another recipe."""
        stages = (*self.stages[:-1], replace(self.stages[-1], until=at), Stage(steps, steps))
        return replace(self, recipe=recipe, asked=asked, stages=stages, before=self.recipe)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write ``run.json`` atomically."""
    content = {"format": FORMAT, "clearhead": version("clearhead"), **asdict(manifest)}
    content["checksum"] = _checksum(content)
    write_whole(folder / NAME, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())


def read_manifest(folder: Path) -> Manifest:
    """Read ``run.json``; raise ``DamagedFile`` if it is missing or was changed."""
    path = folder / NAME
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise DamagedFile(f"{path}: is not there") from None
    except OSError as error:
        raise DamagedFile(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        raise DamagedFile(f"{path}: is damaged (it is not JSON)") from None
    if not isinstance(content, dict) or content.get("checksum") != _checksum(content):
        raise DamagedFile(f"{path}: is damaged (it does not match its checksum)")
    if content["format"] != FORMAT:
        raise NewerFile(f"{path}: was written by a newer clearhead ({content.get('clearhead')}): upgrade clearhead")
    return Manifest(
        asked=content["asked"],
        recipe=content["recipe"],
        fingerprint=content["fingerprint"],
        files={name: Checksum(**entry) for name, entry in content["files"].items()},
        stages=tuple(Stage(**stage) for stage in content["stages"]),
        start=content.get("start"),  # earlier versions had none
        before=content["before"],
    )


def checksum_of(path: Path) -> Checksum:
    """Size and SHA-256 of a file."""
    return Checksum(path.stat().st_size, sha256_of(path))


def damage(path: Path, expected: Checksum) -> str | None:
    """Say what is wrong with a file, or return None; the size is compared first, as that is cheap."""
    if not path.exists():
        return "is not there"
    if not path.is_file():
        return "is not a file"
    try:
        size = path.stat().st_size
        if size != expected.size:
            return f"has {size:,} bytes instead of {expected.size:,}"
        return None if sha256_of(path) == expected.sha256 else "does not match its checksum"
    except OSError as error:
        return f"cannot be read ({error.strerror})"


def _checksum(content: Mapping[str, Any]) -> str:
    kept = {name: value for name, value in content.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()
