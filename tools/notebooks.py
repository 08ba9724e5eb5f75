"""Run the notebooks of docs/notebooks and save them with what they showed: ``python -m tools.notebooks [NAME …]``.

They run from top to bottom in a kernel of this Python, in an empty folder, with one thread. What would differ from
run to run (ids, times, versions, addresses) is left out, so that a notebook that says the same is the same file.
tests/test_notebooks.py runs them too, and holds what they show against what is saved here.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import nbformat
from nbformat import NotebookNode

if TYPE_CHECKING:
    from jupyter_client.manager import AsyncKernelManager

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "notebooks"
VARIES = "varies"
"""The tag of a cell whose numbers depend on the machine, such as those of a model that was trained."""
LARGEST = 300_000
"""Bytes of a notebook: more is slow to open and to review."""
SECONDS = 300
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")


def notebooks() -> list[Path]:
    """All of them."""
    return sorted(FOLDER.glob("*.ipynb"))


def read(path: Path) -> NotebookNode:
    """A notebook as it is saved."""
    notebook: NotebookNode = nbformat.read(path, as_version=4)
    return notebook


def execute(path: Path) -> NotebookNode:
    """The notebook with what it shows now; an error in a cell is raised with the cell's text and traceback."""
    (notebook,) = execute_together([path])
    return notebook


def execute_together(paths: Sequence[Path], shorter: Mapping[str, str] | None = None) -> list[NotebookNode]:
    """Several notebooks with what they show now, one after the other in one kernel, whose names are reset between them.

    Starting a kernel and importing torch takes longer than most notebooks do. ``shorter`` replaces text in the cells
    while they run, such as a number of steps.
    """
    from nbclient import NotebookClient

    notebooks_ = [read(path) for path in paths]
    sources = [cell.source for notebook in notebooks_ for cell in notebook.cells]
    for notebook in notebooks_:
        for cell in notebook.cells:
            for old, new in (shorter or {}).items():
                cell.source = cell.source.replace(old, new)
    cells = [cell for notebook in notebooks_ for cell in (nbformat.v4.new_code_cell("%reset -f"), *notebook.cells)]
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
    together = nbformat.v4.new_notebook(cells=cells)
    with TemporaryDirectory() as folder, TemporaryDirectory() as private:
        client = NotebookClient(
            together,
            km=_kernel(private),
            timeout=SECONDS,
            resources={"metadata": {"path": folder}},
            extra_arguments=["--HistoryManager.enabled=False"],
        )
        client.execute(env=_environment(private), cleanup_kc=True)
        for cell, source in zip((cell for one in notebooks_ for cell in one.cells), sources, strict=True):
            cell.source = source
        return [normalised(notebook, folder) for notebook in notebooks_]


def normalised(notebook: NotebookNode, folder: str) -> NotebookNode:
    """The same without what differs from run to run; what names this machine is refused."""
    notebook.metadata = NotebookNode(
        kernelspec={"display_name": "Python 3", "language": "python", "name": "python3"},
        language_info={"name": "python"},
    )
    run = 0
    for number, cell in enumerate(notebook.cells, start=1):
        cell.id = f"cell-{number}"
        tags = cell.metadata.get("tags", [])
        cell.metadata = NotebookNode({"tags": tags} if tags else {})
        if cell.cell_type == "code":
            run += 1
            cell.execution_count = run
            cell.outputs = _joined([_plain(output, run) for output in cell.outputs])
    text = nbformat.writes(notebook)
    for name in {folder, str(ROOT), str(Path.home()), sys.prefix} - {"/"}:
        if name in text:
            raise ValueError(f"an output names a folder of this machine: {name}")
    return notebook


def shown(cell: NotebookNode) -> list[dict[str, str]]:
    """What a cell shows, by kind: ``text/plain``, ``text/html`` … or the name of a stream."""
    return [
        {output.name: output.text} if output.output_type == "stream" else dict(output.data) for output in cell.outputs
    ]


def _kernel(private: str) -> "AsyncKernelManager":
    """The Python that runs this: without folders of kernels there is no other. Sockets lie where nobody else reads."""
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager

    kernel = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=KernelSpecManager(kernel_dirs=[]))
    if os.name != "nt":
        kernel.transport, kernel.ip = "ipc", str(Path(private) / "kernel")
    return kernel


def _environment(private: str) -> dict[str, str]:
    """This process's environment with our source first, one thread, and nobody's settings of IPython."""
    paths = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "OMP_NUM_THREADS": "1",
        "IPYTHONDIR": private,
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }


def _plain(output: NotebookNode, run: int) -> NotebookNode:
    output.pop("transient", None)
    if output.output_type == "execute_result":
        output.execution_count = run
    if output.output_type == "stream":
        output.text = _ADDRESS.sub("0x…", output.text)
    else:
        output.metadata = NotebookNode()
        output.data = NotebookNode({kind: _ADDRESS.sub("0x…", text) for kind, text in output.data.items()})
    return output


def _joined(outputs: Sequence[NotebookNode]) -> list[NotebookNode]:
    """Pieces of one stream, which come as the kernel sends them, as one."""
    joined: list[NotebookNode] = []
    for output in outputs:
        last = joined[-1] if joined else None
        if output.output_type == "stream" and last is not None and last.get("name") == output.name:
            last.text += output.text
        else:
            joined.append(output)
    return joined


def main(names: Sequence[str]) -> None:
    """Run the named notebooks, or all."""
    paths = [FOLDER / f"{name.removesuffix('.ipynb')}.ipynb" for name in names] or notebooks()
    for path, notebook in zip(paths, execute_together(paths), strict=True):
        text = nbformat.writes(notebook) + "\n"
        path.write_text(text, encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: {len(text.encode()):,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
