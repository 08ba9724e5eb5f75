"""The package as a whole: its table of contents, and that looking at it costs nothing."""

import subprocess
import sys
import tomllib
from pathlib import Path

import clearhead

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


def test_importing_clearhead_imports_no_torch() -> None:
    code = "import sys, clearhead; clearhead.read_recipe('tiny'); sys.exit('torch' in sys.modules)"
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
