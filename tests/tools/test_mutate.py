"""Every mutation still applies, and names tests that exist; the runner tells survivors from what was caught."""

import re
from collections import Counter
from pathlib import Path

import pytest
from tools.mutate.catalogue import DoesNotApply, Mutation, read_catalogue
from tools.mutate.runner import Job, Outcome, group_by_file, run_all

TESTS = Path(__file__).parent.parent
MUTATIONS = read_catalogue()


def test_every_mutation_applies_once_and_changes_the_syntax_tree() -> None:
    """If one does not: the line has changed. Write it anew, or choose another mistake of the same kind."""
    broken = []
    for mutation in MUTATIONS:
        try:
            mutation.source()
        except DoesNotApply as error:
            broken.append(str(error))
    assert not broken, "\n".join(broken)
    assert len(MUTATIONS) >= 150
    assert max(Counter(mutation.label for mutation in MUTATIONS).values()) == 1
    assert max(Counter((one.file, one.old, one.new) for one in MUTATIONS).values()) == 1


def test_every_mutation_names_tests_that_exist() -> None:
    missing = []
    for test in {test for mutation in MUTATIONS for test in mutation.tests}:
        file, _, name = test.partition("::")
        path = TESTS / file
        function = name.partition("[")[0]
        if not path.is_file() or (function and not re.search(rf"^def {function}\b", path.read_text(), re.MULTILINE)):
            missing.append(test)
    assert not missing, missing


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("a + b", "a  +  b", "the syntax tree is the same"),
        ("a", "b", "the old text occurs 3 times"),
        ("a - b", "b", "the old text occurs 0 times"),
        ("a + b", "a +", "invalid syntax"),
    ],
)
def test_what_is_no_mutation_is_refused(package: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(DoesNotApply, match=message):
        Mutation("sums", "one", "sums.py", old, new, ()).source(package)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with one function, and tests of it."""
    folder, tests = tmp_path / "src" / "tiny_package", tmp_path / "tests"
    folder.mkdir(parents=True)
    tests.mkdir()
    (folder / "__init__.py").touch()
    (folder / "sums.py").write_text("def add(a, b):\n    return a + b\n")
    (tests / "test_sums.py").write_text(
        "from tiny_package.sums import add\n\n\n"
        "def test_weak():\n    assert add(2, 2) == 4\n\n\n"
        "def test_strong():\n    assert add(1, 2) == 3\n"
    )
    return folder


def run(package: Path, new: str | None, *tests: str) -> Outcome:
    """The outcome of these tests on the package, with ``a + b`` replaced by ``new``."""
    names = tuple(f"test_sums.py::{test}" for test in tests)
    mutation = None if new is None else Mutation("sums", "one", "sums.py", "a + b", new, names)
    ((_, outcome),) = run_all([Job(names, mutation, package.parent.parent / "tests", package)], at_once=1)
    return outcome


def test_survivors_are_told_from_what_was_caught(package: Path) -> None:
    """2 · 2 is 2 + 2, so the weak test does not notice; what any test would notice proves nothing."""
    whole = run(package, None, "test_weak", "test_strong")
    assert (whole.failed, whole.ran, whole.refused) == ([], 2, None)
    assert run(package, "a * b", "test_weak").verdict == "survived"
    caught = run(package, "a * b", "test_weak", "test_strong")
    assert (caught.verdict, caught.ran) == ("caught", 2)
    assert [name.rpartition("::")[2] for name in caught.failed] == ["test_strong"]
    assert run(package, "a + c", "test_strong").verdict == "refused"
    assert run(package, "a + b\n\n\nimport no_such_module", "test_strong").verdict == "refused"
    assert run(package, "a * b", "test_that_is_not_there").verdict == "refused"


def test_tests_of_a_file_are_run_together() -> None:
    assert group_by_file(["b.py::y", "a.py::x", "b.py::y", "b.py::z"]) == [("b.py::y", "b.py::z"), ("a.py::x",)]
