"""The mutations: plain data in ``areas/*.toml``, read, checked and applied here.

An entry has a ``name``, a ``file`` under ``src/clearhead``, the text ``old`` that stands there exactly once, the text
``new`` that takes its place, and the ``tests`` that should notice: pytest's node ids, relative to ``tests``.
"""

import ast
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "src" / "clearhead"
AREAS = Path(__file__).parent / "areas"


class DoesNotApply(Exception):
    """A mutation that cannot be made, or that changes nothing."""


@dataclass(frozen=True)
class Mutation:
    """One change of one file.

    Args:
        area: the part of the product, the name of its TOML file.
        name: what is wrong after the change.
        file: the file, relative to ``src/clearhead``.
        old: the text to replace, which occurs exactly once.
        new: what takes its place.
        tests: the tests that should notice, as node ids relative to ``tests``.
    """

    area: str
    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def label(self) -> str:
        """Area and name, which ``--only`` is compared with."""
        return f"{self.area}/{self.name}"

    @property
    def module(self) -> str:
        """The name under which the file is imported."""
        parts = Path(self.file).with_suffix("").parts
        return ".".join(("clearhead", *(part for part in parts if part != "__init__")))

    def source(self, package: Path = PACKAGE) -> str:
        """The changed source; raises ``DoesNotApply`` unless the change is one, and is valid Python."""
        before = (package / self.file).read_text(encoding="utf-8")
        if (count := before.count(self.old)) != 1:
            raise DoesNotApply(f"{self.label}: the old text occurs {count} times in {self.file}")
        after = before.replace(self.old, self.new)
        try:
            changed = ast.dump(ast.parse(after)) != ast.dump(ast.parse(before))
        except SyntaxError as error:
            raise DoesNotApply(f"{self.label}: {error}") from error
        if not changed:
            raise DoesNotApply(f"{self.label}: the syntax tree is the same")
        return after


def read_catalogue(folder: Path = AREAS) -> list[Mutation]:
    """All mutations, area by area."""
    found = []
    for path in sorted(folder.glob("*.toml")):
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["mutation"]:
            found.append(Mutation(area=path.stem, **(entry | {"tests": tuple(entry["tests"])})))
    return found
