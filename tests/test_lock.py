"""requirements.lock: complete, hashed, without hosts or paths; the audit finds what was changed."""

import json
import re
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tools import audit, lock

LOCK = lock.LOCK.read_text(encoding="utf-8")


def test_every_package_is_hashed() -> None:
    """With a package whose hash is missing, `make setup` would stop: pip is called with --require-hashes."""
    locked = lock.read_lock()
    assert len(locked) > 80
    assert all(hashes for _, hashes in locked.values())
    assert "--require-hashes" in (lock.ROOT / "Makefile").read_text(encoding="utf-8")
    assert not re.search(r"https?:|file:|/opt|/home|/tmp", LOCK)


def test_what_the_project_asks_for_is_locked() -> None:
    project = (lock.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    asked = {lock.canonical(name) for name in re.findall(r'^\s+"([A-Za-z0-9_.-]+)(?:\[[a-z]+\])?>=', project, re.M)}
    assert len(asked) > 20
    assert asked <= lock.read_lock().keys()


def test_versions_in_names_of_files() -> None:
    assert lock._version("pydantic_core-2.50.4-cp311-cp311-manylinux_2_17_x86_64.whl", "pydantic-core") == "2.50.4"
    assert lock._version("pydantic_core-2.50.4.tar.gz", "pydantic-core") == "2.50.4"
    assert lock._version("ruff-0.17.40.tar.gz", "ruff") == "0.17.40"


def test_the_audit_names_other_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {"numpy": ("0.1", frozenset[str]()), "absent": ("1.0", frozenset[str]())}
    monkeypatch.setattr(audit, "read_lock", lambda: wrong)
    packages = {"numpy": distribution("numpy"), "rich": distribution("rich")}
    assert list(audit._versions(packages)) == [
        "absent: is locked, but not installed",
        f"numpy: {distribution('numpy').version} is installed, 0.1 is locked",
        "rich: is installed, but not locked",
    ]


def test_the_audit_names_changed_files(tmp_path: Path) -> None:
    from importlib.metadata import Distribution

    info = tmp_path / "thing-1.0.dist-info"
    info.mkdir()
    (tmp_path / "thing.py").write_text("x = 2\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
    (info / "RECORD").write_text("thing.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\ngone.py,sha256=x,0\n")
    found = list(audit._changed(Distribution.at(info)))
    assert found == ["thing: thing.py was changed after it was installed", "thing: gone.py is missing"]
    assert not list(audit._changed(distribution("rich")))


def test_the_bill_of_materials() -> None:
    bill = audit.bill({"rich": distribution("rich")})
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    (component,) = bill["components"]
    assert component["purl"] == f"pkg:pypi/rich@{distribution('rich').version}"
    assert all(re.fullmatch("[0-9a-f]{64}", one["content"]) for one in component["hashes"])
    json.dumps(bill)
