"""The mutations: plain data in ``areas/*.toml``, read, checked and applied here.

An entry has a ``name``, a ``file`` under ``src/clearhead``, the text ``old`` that stands there exactly once, the text
``new`` that takes its place, and the ``tests`` that should notice: pytest's node ids, relative to ``tests``.
"""

import ast
import tomllib
from dataclasses import dataclass
from functools import cache
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

    def module(self, package: Path = PACKAGE) -> str:
        """The name under which the file is imported."""
        parts = Path(self.file).with_suffix("").parts
        return ".".join((package.name, *(part for part in parts if part != "__init__")))

    def source(self, package: Path = PACKAGE) -> str:
        """The changed source; raises ``DoesNotApply`` unless the change is one, and is valid Python."""
        before = (package / self.file).read_text(encoding="utf-8")
        if (count := before.count(self.old)) != 1:
            raise DoesNotApply(f"{self.label}: the old text occurs {count} times in {self.file}")
        after = before.replace(self.old, self.new)
        first = before[: before.index(self.old)].count("\n") + 1
        try:
            changed = _tree_differs(before, after, first, first + self.old.count("\n"))
        except SyntaxError as error:
            raise DoesNotApply(f"{self.label}: {error}") from error
        if not changed:
            raise DoesNotApply(f"{self.label}: the syntax tree is the same")
        return after


def _tree_differs(before: str, after: str, first: int, last: int) -> bool:
    """Whether a change in these lines of ``before`` changes the syntax tree; other statements are not compared."""
    old, new = _statements(before), ast.parse(after).body
    if len(old) != len(new):
        return True
    touched = ((a, b) for a, b in zip(old, new, strict=True) if a.lineno <= last and (a.end_lineno or last) >= first)
    return any(ast.dump(a) != ast.dump(b) for a, b in touched)


@cache
def _statements(source: str) -> list[ast.stmt]:
    return ast.parse(source).body


def read_catalogue(folder: Path = AREAS) -> list[Mutation]:
    """All mutations, area by area."""
    found = []
    for path in sorted(folder.glob("*.toml")):
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["mutation"]:
            found.append(Mutation(area=path.stem, **(entry | {"tests": tuple(entry["tests"])})))
    return found
