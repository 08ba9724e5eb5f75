"""The notebooks of docs/notebooks run from top to bottom, and show what is saved in them."""

import re
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from tools.notebooks import LARGEST, ROOT, VARIES, execute, execute_together, normalised, notebooks, read, shown

from tests.drawing.test_html import check

every_notebook = pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def unstyled(cell: NotebookNode) -> list[dict[str, str]]:
    """What a cell shows, without its style, whose rules may change, and without what depends on the machine."""
    return [{kind: _comparable(text) for kind, text in output.items()} for output in shown(cell)]


def _comparable(text: str) -> str:
    for pattern, instead in LEFT_OUT:
        text = pattern.sub(instead, text)
    return text


SHORTER = {"steps=400": "steps=100"}
LEFT_OUT = (
    (re.compile("<style>.*?</style>", re.DOTALL), ""),
    (re.compile(r"Dropout [0-9.]+<"), "Dropout<"),  # fewer steps need less of it
    # each kind of processor rounds in its own way, or not at all
    (re.compile(r"\b[0-9.]+e-(0[6-9]|[1-9][0-9])\b|(?<=class='number'>)0(?=<)"), "rounding"),
)
"""What differs in cells that do not vary, and what is compared instead; bounds, 1e-05, are compared as they are."""
ASKING = "asking"
QUESTION = 'import os, sys, clearhead\nprint(os.environ["EXPECTED"] == f"{sys.executable} {clearhead.__file__}")'


def test_there_is_one_for_each_lecture_and_two_more() -> None:
    assert [path.stem for path in notebooks()] == [
        "attention-and-its-cost",
        *("lecture-L0", "lecture-L1", "lecture-L2", "lecture-L3", "lecture-L4"),
        "own-pairs",
    ]


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, NotebookNode]:
    """All notebooks, and one that asks about the kernel, as they run now, in one kernel.

    A model is trained for fewer steps than in what is saved.
    """
    asking = tmp_path_factory.mktemp("asking") / f"{ASKING}.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(QUESTION)]), asking)
    assert sum(path.read_text(encoding="utf-8").count("steps=400") for path in notebooks()) == 1
    paths = [asking, *notebooks()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EXPECTED", f"{sys.executable} {ROOT / 'src' / 'clearhead' / '__init__.py'}")
        return {path.stem: notebook for path, notebook in zip(paths, execute_together(paths, SHORTER), strict=True)}


@every_notebook
def test_it_runs_and_shows_what_is_saved(path: Path, executed: dict[str, NotebookNode]) -> None:
    check_same(read(path), executed[path.stem])


def check_same(saved: NotebookNode, now: NotebookNode) -> None:
    """Cells that are tagged with "varies" show numbers of a trained model: of those only the kind is compared."""
    for before, after in zip(code_cells(saved), code_cells(now), strict=True):
        assert after.source == before.source
        if VARIES in before.metadata.get("tags", []):
            assert [set(output) for output in shown(after)] == [set(output) for output in shown(before)], before.source
        else:
            assert unstyled(after) == unstyled(before), before.source


@every_notebook
def test_it_is_saved_as_the_tool_saves_it(path: Path) -> None:
    """Executed from top to bottom, small, without names of a machine, and nothing in it runs or is fetched."""
    text = path.read_text(encoding="utf-8")
    notebook = read(path)
    assert len(text.encode()) <= LARGEST
    assert text == nbformat.writes(normalised(read(path), "/nowhere")) + "\n"
    assert not re.search(r"/(?:root|home|tmp|Users|work)/", text)
    assert [cell.execution_count for cell in code_cells(notebook)] == list(range(1, len(code_cells(notebook)) + 1))
    assert any("text/html" in output for cell in code_cells(notebook) for output in shown(cell))
    for cell in code_cells(notebook):
        for output in shown(cell):
            assert "stderr" not in output, output
            if output.get("text/html", "").startswith('<div class="clearhead">'):
                check(f"<div>{output['text/html']}</div>")  # a run is shown by several


@every_notebook
def test_it_begins_with_a_title_and_explains_every_cell(path: Path) -> None:
    first, *_ = notebook = read(path).cells
    assert first.source.startswith("# ")
    kinds = [cell.cell_type for cell in notebook]
    assert "code code" not in " ".join(kinds)
    for cell in notebook:
        for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", cell.source) if cell.cell_type == "markdown" else ():
            assert (path.parent / link).exists(), link


def test_a_notebook_that_fails_or_names_this_machine_is_refused(tmp_path: Path) -> None:
    failing = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")])
    file = tmp_path / "failing.ipynb"
    nbformat.write(failing, file)
    with pytest.raises(Exception, match="ZeroDivisionError"):
        execute(file)
    output = nbformat.v4.new_output("stream", name="stdout", text=f"{ROOT}/somewhere")
    naming = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("", outputs=[output])])
    with pytest.raises(ValueError, match="names a folder of this machine"):
        normalised(naming, str(tmp_path))


def test_the_kernel_is_this_python_with_this_source(executed: dict[str, NotebookNode]) -> None:
    assert shown(executed[ASKING].cells[0]) == [{"stdout": "True\n"}]
