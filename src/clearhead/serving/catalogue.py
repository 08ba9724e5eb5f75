"""The models by name: where each stands, which version of it answers, and whether there is a newer one.

A version is a model as it was when it was loaded. Its file is kept open as long as it answers, so that a worker that
starts later can load the same even if the file was deleted or another one has taken its name.
"""

import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from clearhead.errors import Problem, RecipeError, did_you_mean
from clearhead.recipe import DecodingSpec, Recipe, read_decoding, recipe_from, weights_of
from clearhead.serving.faults import Refused, UnknownModel, refused_settings
from clearhead.serving.settings import ServeSettings
from clearhead.serving.shapes import ModelFacts

Signature = tuple[tuple[int, ...], ...]
"""What changes when files do: device, number, size and time of each."""
_NAME = re.compile(r"[\w.+@-]{1,100}")
_DIRECTION = re.compile(r"(?:.*[^a-z])?([a-z]{2})[-_2]([a-z]{2})")
_PROCESSES = Path("/proc/self/fd")
_KEPT_SPECS = 256
"""Different settings whose judgement is remembered, for each version."""
_KEPT_CHARACTERS = 1_000
"""The longest settings, as JSON, that are remembered: lists of banned tokens may be far longer."""


def names_of(words: Sequence[str]) -> dict[str, Path]:
    """Models by name, from words of a command line: ``name=path``, or a path whose last part is the name.

    A run folder or a Hugging Face folder is known by the folder, ``best.safetensors`` by its folder, another model
    file by its stem. Names are unique and have no ``/``.
    """
    found: dict[str, Path] = {}
    for word in words:
        name, equals, path = word.partition("=")
        if not equals or Path(word).exists() or "/" in name:
            name, path = "", word
        place = Path(path)
        if not name:
            real = place.resolve()
            folder = real.parent if real.name in ("best.safetensors", "recipe.toml") else real
            name = folder.stem if folder.suffix == ".safetensors" else folder.name
        if not _NAME.fullmatch(name):
            message = "is no name for a model: letters, digits and . + @ _ - are; say name=path"
            raise RecipeError([Problem("", name or word, message)])
        if name in found:
            raise RecipeError([Problem("", name, f"names two models, {found[name]} and {place}: say name=path")])
        found[name] = place
    return found


def signature_of(path: Path, *, foreign: bool) -> Signature:
    """What changes when a model file, or a file of a folder, is replaced or written to."""
    files = sorted(file for file in path.iterdir() if file.is_file()) if foreign else [path]
    infos = [file.stat() for file in files]
    return tuple((info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns) for info in infos)


@dataclass(eq=False)
class Version:
    """A model as it was when it was loaded.

    Args:
        number: by which workers know it.
        name: the name of the model.
        path: the file, or the folder.
        foreign: whether it is a Hugging Face folder.
        signature: of the file, before it was loaded.
        descriptor: the open file; None for a folder.
    """

    number: int
    name: str
    path: Path
    foreign: bool
    signature: Signature
    descriptor: int | None
    facts: Mapping[str, Any] = field(default_factory=dict)
    users: int = 0
    """Requests that it answers now."""
    loaded: float = 0.0
    _recipe: Recipe | None = None
    _specs: dict[str, DecodingSpec] = field(default_factory=dict)

    @classmethod
    def of(cls, number: int, name: str, word: str | Path) -> "Version":
        """The version that is there now."""
        path, foreign = weights_of(word)
        if foreign:
            return cls(number, name, path, foreign, signature_of(path, foreign=True), None)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        info = os.fstat(descriptor)
        signature = ((info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns),)
        return cls(number, name, path, foreign, signature, descriptor)

    @property
    def source(self) -> str:
        """Where a worker reads it: where the system allows it, the file that this process holds open."""
        if self.descriptor is None or not _PROCESSES.is_dir():
            return str(self.path)
        return f"/proc/{os.getpid()}/fd/{self.descriptor}"

    @property
    def fingerprint(self) -> str:
        """The checksum of what was loaded; empty before."""
        return str(self.facts.get("fingerprint", ""))

    def learn(self, reply: Mapping[str, Any]) -> None:
        """Take in what the first worker that loaded it says of it."""
        self.facts, self.loaded = reply["facts"], time.time()
        self._recipe = recipe_from(reply["recipe"], name=str(self.path))

    @property
    def recipe(self) -> Recipe:
        """Its recipe."""
        assert self._recipe is not None
        return self._recipe

    def decoding(self, key: str, settings: Mapping[str, Any], limits: ServeSettings) -> DecodingSpec:
        """The way of decoding with the settings of a request, which ``key`` stands for; mistakes are ``Refused``."""
        if (known := self._specs.get(key)) is not None:
            return known
        spec = self._judged(settings, limits)
        if len(key) <= _KEPT_CHARACTERS:
            if len(self._specs) >= _KEPT_SPECS:
                self._specs.clear()
            self._specs[key] = spec
        return spec

    def _judged(self, settings: Mapping[str, Any], limits: ServeSettings) -> DecodingSpec:
        for name, most in (
            ("beam_size", limits.beam_size),
            *((name, limits.answer_tokens) for name in ("max_length", "min_length", "max_extra", "max_source")),
            *((name, limits.answer_ratio) for name in ("max_ratio", "min_ratio")),
        ):
            value = settings.get(name)
            if isinstance(value, int | float) and not value <= max(most, self._usual(name)):
                raise Refused(f"settings.{name}", f"is {value}, and this server allows up to {most}")
        if "batch_tokens" in settings:
            raise Refused("settings.batch_tokens", "is for the server to choose")
        try:
            return read_decoding(self.recipe, settings=settings)
        except RecipeError as error:
            raise refused_settings(error) from None

    def _usual(self, name: str) -> float:
        return float(getattr(self.recipe.decoding, name) or 0)

    def close(self) -> None:
        """Let go of the file."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


@dataclass(eq=False)
class Entry:
    """A name, and what stands behind it."""

    name: str
    word: Path
    """What the user named."""
    current: Version
    trouble: str | None = None
    """Why a newer version was not taken."""
    troubled: Signature | None = None
    """Which one that was."""


class Catalogue:
    """All models, in the order in which they were named.

    Args:
        models: paths by name.
    """

    def __init__(self, models: Mapping[str, Path | str]) -> None:
        if not models:
            raise RecipeError([Problem("", "", "name at least one model to serve")])
        for name in models:
            if not _NAME.fullmatch(name):
                raise RecipeError([Problem("", name, "is no name for a model: letters, digits and . + @ _ - are")])
        self._numbers = count(1)
        self.entries: dict[str, Entry] = {}
        self.leaving: list[Version] = []
        """Versions that were replaced, but still answer what was asked before."""
        try:
            for name, word in models.items():
                self.entries[name] = Entry(name, Path(word), self.version(name, word))
        except BaseException:
            self.close()
            raise

    def version(self, name: str, word: str | Path) -> Version:
        """A new version of a model, as it is there now; no worker has it yet."""
        return Version.of(next(self._numbers), name, word)

    def __getitem__(self, name: str | None) -> Entry:
        if name is None:
            return next(iter(self.entries.values()))
        if name not in self.entries:
            names = list(self.entries)
            raise UnknownModel(f"there is no model of this name{did_you_mean(name, names)} ({', '.join(names)})")
        return self.entries[name]

    def versions(self) -> list[Version]:
        """Those that a worker must have: one of each model, and those that are leaving."""
        return [*(entry.current for entry in self.entries.values()), *self.leaving]

    def replace(self, entry: Entry, new: Version) -> None:
        """Let a new version answer from now on."""
        self.leaving.append(entry.current)
        entry.current, entry.trouble, entry.troubled = new, None, None

    def unused(self) -> list[Version]:
        """Take out the versions that have answered everything."""
        found = [version for version in self.leaving if not version.users]
        self.leaving = [version for version in self.leaving if version.users]
        return found

    def facts(self, entry: Entry, *, ready: bool) -> ModelFacts:
        """What is known of a model."""
        known = dict(entry.current.facts)
        direction = _DIRECTION.fullmatch(entry.name)
        return ModelFacts(
            name=entry.name,
            family=known.get("family", ""),
            fingerprint=entry.current.fingerprint,
            parameters=known.get("parameters", 0),
            reads=known.get("reads", "text"),
            columns=tuple(known.get("columns", ())),
            sides=known.get("sides", {}),
            direction=(direction[1], direction[2]) if direction else None,
            labels=tuple(known.get("labels", ())),
            mask=known.get("mask"),
            picture=tuple(known["picture"]) if known.get("picture") else None,
            streams=known.get("streams", False),
            beam_size=known.get("beam_size", 1),
            decoding=known.get("decoding", {}),
            loaded=entry.current.loaded,
            ready=ready,
            trouble=entry.trouble,
        )

    def close(self) -> None:
        """Let go of all files."""
        for version in self.versions():
            version.close()
