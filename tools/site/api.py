"""The API reference: a page for every group of ``clearhead.__all__``, filled by mkdocstrings from the docstrings."""

from functools import cache
from pathlib import Path

import clearhead
from tools.site.page import Page

SOURCE = Path(clearhead.__file__).parent
TITLES = {"verbs": "Train, evaluate, answer", "interop": "Import", "predictor": "Models that answer"}
"""What a group is called, where its own name says too little."""


@cache
def api_pages() -> tuple[Page, ...]:
    """In the order of the table of contents."""
    return tuple(_page(group, names) for group, names in clearhead._CONTENTS.items())


def _page(group: str, names: list[str]) -> Page:
    title = TITLES.get(group, group.capitalize())
    blocks = [f"# {title}", *(_block(group, name) for name in names)]
    return Page(f"api/{group}.md", title, "\n\n".join(blocks) + "\n")


def _block(group: str, name: str) -> str:
    """What mkdocstrings replaces by the docstring and all members of a name.

    A function that is called like its module (``clearhead/attention/attend.py``) is hidden by it from readers that do
    not run the code: its full path is given, and its public name as the heading.
    """
    if not (SOURCE / group / f"{name}.py").is_file():
        return f"::: clearhead.{name}"
    return (
        f"::: clearhead.{group}.{name}.{name}\n    options:\n      heading: clearhead.{name}\n      toc_label: {name}"
    )
