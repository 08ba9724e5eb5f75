"""The package as a whole: its table of contents, and that looking at it costs nothing."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import clearhead
from clearhead.recipe import Spec

ROOT = Path(__file__).parent.parent


def test_all_is_the_table_of_contents() -> None:
    """Every public name can be had, is documented, and stands in __all__ once."""
    assert len(set(clearhead.__all__)) == len(clearhead.__all__)
    assert dir(clearhead) == sorted(clearhead.__all__)
    for name in clearhead.__all__:
        assert getattr(clearhead, name).__doc__, name


def test_type_checkers_see_the_same_names() -> None:
    """The imports for type checkers and the lazy ones name the same things."""
    source = Path(clearhead.__file__).read_text(encoding="utf-8")
    imported = [line.split()[-1] for line in source.splitlines() if line.startswith("    from clearhead.")]
    assert sorted(imported) == sorted(clearhead.__all__)


def test_a_wrong_name_is_an_attribute_error() -> None:
    assert not hasattr(clearhead, "Attention")


def test_no_class_name_stands_twice_and_specs_are_called_so() -> None:
    """A name says which of two things is meant: a recipe has a LayerNormSpec, a model a LayerNorm."""
    homes: dict[str, list[str]] = {}
    for file in Path(clearhead.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(file.name)
    assert {name: files for name, files in homes.items() if len(files) > 1 and not name.startswith("_")} == {}

    def below(spec: type[Spec]) -> Iterator[type[Spec]]:
        for kind in spec.__subclasses__():
            yield kind
            yield from below(kind)

    ours = [kind.__name__ for kind in below(Spec) if kind.__module__.startswith("clearhead.")]
    assert [name for name in ours if not name.endswith("Spec") and name != "Recipe" and name[0] != "_"] == []


def test_importing_clearhead_imports_no_torch() -> None:
    """Nor sympy, which only costs are computed with, and which takes half a second."""
    code = "import sys, clearhead; clearhead.read_recipe('tiny'); clearhead.check; "
    code += "sys.exit('torch' in sys.modules or 'sympy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_versions_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == clearhead.__version__
    assert f"## {clearhead.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_lock_pins_everything_exactly() -> None:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    # a pin ends with a backslash, and its hashes stand below it, indented: tests/test_lock.py looks at them
    pins = [line.removesuffix(" \\") for line in lines if line and not line.startswith(("#", " "))]
    assert "torch==2.13.0" in pins
    assert all(line.count("==") == 1 for line in pins)
