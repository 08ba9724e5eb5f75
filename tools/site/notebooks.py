"""Notebooks as pages: their text, their code and the outputs that are stored in them. Nothing is run."""

import base64
import re
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

import nbformat

from tools.site.page import Page

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def notebook_page(path: Path) -> Page:
    """A notebook as Markdown; its title is its first heading."""
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    text = "\n\n".join(block for cell in notebook.cells for block in _cell(cell))
    heading = re.search(r"^# (.+)$", text, re.MULTILINE)
    return Page(
        f"notebooks/{path.stem}.md",
        heading[1] if heading else path.stem,
        f"{text}\n\n[Download this notebook]({path.name})\n",
    )


def notebook_list(pages: Sequence[Page]) -> Page:
    """The page that lists all notebooks."""
    links = [f"- [{page.title}]({Path(page.path).name})" for page in pages]
    return Page("notebooks/index.md", "Notebooks", "\n".join(["# Notebooks", "", *links, ""]))


def _cell(cell: Any) -> Iterator[str]:
    if cell.cell_type == "markdown":
        yield cell.source
    elif cell.cell_type == "code" and cell.source:
        yield fenced(cell.source, "python")
        for output in cell.outputs:
            yield from _output(output)


def _output(output: Any) -> Iterator[str]:
    """The richest form that a page can show: HTML, a picture, or text."""
    if output.output_type == "stream":
        yield _said(output.text)
    elif output.output_type == "error":
        yield _said("\n".join(output.traceback))
    else:
        data = output.data
        if "text/html" in data:
            yield _html(data["text/html"])
        elif "image/svg+xml" in data:
            yield _html(data["image/svg+xml"])
        elif "image/png" in data:
            picture = "".join(data["image/png"].split())
            base64.b64decode(picture, validate=True)
            yield _html(f'<img alt="output" src="data:image/png;base64,{picture}">')
        elif "text/plain" in data:
            yield _said(data["text/plain"])


def _html(html: str) -> str:
    """One block of HTML for Markdown, which ends such a block at an empty line."""
    dense = re.sub(r"\n\s*\n", "\n", html.strip())
    return f'<div class="notebook-output">{dense}</div>'


def _said(text: str) -> str:
    lines = escape(_ANSI.sub("", text).rstrip(), quote=False).replace("\n\n", "\n&#8203;\n")
    return f'<div class="notebook-output"><pre>{lines}</pre></div>'


def fenced(text: str, language: str) -> str:
    """Text between fences that are longer than any in it."""
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
