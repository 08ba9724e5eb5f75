"""Conversions of models for other engines: made once, kept beside the model, never half-written, made again if stale.

A conversion is a folder that is named by the model's fingerprint and has ``engine.json`` inside, with the checksum of
each file. One that does not agree with its checksums, or that an older clearhead made differently, is made again.
"""

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clearhead.errors import ClearheadError
from clearhead.files import sha256_of, whole_folder
from clearhead.locks import held
from clearhead.shipped import is_shipped

FORMAT = 1
"""Raised when conversions are made differently, so that older ones are made again."""
_ABOUT = "engine.json"
_DIGITS = 16
"""Digits of the fingerprint in the name of a folder."""
_WAIT = 0.2
"""Seconds between two looks whether another process has finished the same conversion."""


@dataclass(frozen=True)
class Kept:
    """A conversion by name.

    Args:
        form: the engine and how it computes, such as ``ctranslate2-int8``.
        fingerprint: of the model.
        beside: the model file or folder; None for a model in memory.
    """

    form: str
    fingerprint: str
    beside: Path | None

    def folder(self) -> Path:
        """Where it is kept: beside the model, or in the user's cache if nothing can or should be written there."""
        near = self._near()
        return near if near is not None and os.access(near.parent, os.W_OK) else cache_folder() / self._name

    @property
    def _name(self) -> str:
        return f"{self.form}-{self.fingerprint[:_DIGITS]}"

    def _near(self) -> Path | None:
        """The place beside the model, if it may have one."""
        if self.beside is None or is_shipped(self.beside):
            return None
        return self.beside.absolute().parent / f"{self.beside.name}.{self._name}"

    def find(self) -> Path | None:
        """The folder, if it is there and as it was written: beside a model that is only read, too."""
        near = self._near()
        return (self._whole(near) if near is not None else None) or self._whole(self.folder())

    def _whole(self, folder: Path) -> Path | None:
        try:
            about: dict[str, Any] = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
            files: dict[str, str] = about.pop("files")
            whole = about == self._about() and all(sha256_of(folder / name) == files[name] for name in files)
        except (OSError, ValueError, KeyError, AttributeError, TypeError):
            return None
        return folder if whole else None

    def _about(self) -> dict[str, Any]:
        return {"made_by": "clearhead", "format": FORMAT, "form": self.form, "fingerprint": self.fingerprint}

    def make(self, write: Callable[[Path, Path], None]) -> Path:
        """Find the folder, or fill it; then remove those of earlier versions of the model.

        Args:
            write: fills a folder, given as its first argument, that will be called as the second one says; raises if
                the conversion computes something else than the model, so that no folder appears.
        """
        folder = self.folder()
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with _alone(folder.with_name(f".{folder.name}.making")):
                if (found := self.find()) is not None:  # another process has made it meanwhile
                    return found
                with whole_folder(folder) as building:
                    write(building, folder)
                    names = sorted(str(file.relative_to(building)) for file in building.rglob("*") if file.is_file())
                    files = {name: sha256_of(building / name) for name in names}
                    content = json.dumps(self._about() | {"files": files}, indent=1)
                    (building / _ABOUT).write_text(content + "\n", encoding="utf-8")
        except OSError as error:
            raise ClearheadError(f"{folder}: the model cannot be converted there: {error.strerror}") from None
        self._forget_earlier(folder)
        return folder

    def _forget_earlier(self, folder: Path) -> None:
        if self.beside is None or not folder.name.startswith(f"{self.beside.name}."):
            return  # the cache holds conversions of many models
        earlier = re.compile(rf"{re.escape(f'{self.beside.name}.{self.form}-')}[0-9a-f]{{{_DIGITS}}}")
        for other in folder.parent.iterdir():
            if other != folder and earlier.fullmatch(other.name) and (other / _ABOUT).is_file():
                with suppress(OSError):
                    shutil.rmtree(other)


def cache_folder() -> Path:
    """Where conversions of models are kept that nothing can be written beside."""
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "clearhead" / "engines"
    except RuntimeError:
        raise ClearheadError("there is no home folder to keep a conversion in: set XDG_CACHE_HOME") from None


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other process works under this name."""
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(held(folder))
            except ClearheadError:
                time.sleep(_WAIT)
            else:
                break
        yield
