"""HTML for notebooks: no script, no request to anywhere, readable on the notebook's own light or dark ground.

Text takes the colour of what surrounds it; other colours follow the theme that JupyterLab, VS Code or Colab says it
has, and are mid tones where no theme is known.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from clearhead.drawing.figure import Figure
from clearhead.drawing.svg import STYLE, svg

NOTEBOOK_STYLE = STYLE + (files("clearhead.drawing") / "notebook.css").read_text(encoding="utf-8")


def fragment(body: str, *, style: str = "") -> str:
    """A part of a page, as ``_repr_html_`` returns it: ``body`` (escaped already) with the style that it needs."""
    return f'<div class="clearhead"><style>{NOTEBOOK_STYLE}{style}</style>{body}</div>'


def figures_html(figures: Iterable[Figure]) -> str:
    """Figures with their titles, side by side or one below the other, as there is room."""
    drawn = (f"<figure><figcaption>{escape(one.title)}</figcaption>{svg(one)}</figure>" for one in figures)
    return f'<div class="beside">{"".join(drawn)}</div>'


def facts(pairs: Mapping[str, object]) -> str:
    """A few named values in a row: ``{"parameters": "3,885,568"}``; names and values are escaped here."""
    items = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(str(value))}</dd></div>" for name, value in pairs.items())
    return f'<dl class="facts">{items}</dl>'


def table(
    header: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: Collection[int] = (), caption: str = ""
) -> str:
    """A table of texts, which are escaped here; the columns in ``numbers`` are aligned to the right.

    >>> table(["name", "n"], [["a<b", 3]], numbers={1}).count("a&lt;b")
    1
    """
    kinds = [' class="number"' if column in numbers else "" for column in range(len(header))]
    head = "".join(f'<th scope="col"{kind}>{escape(name)}</th>' for name, kind in zip(header, kinds, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{escape(str(cell))}</td>" for cell, kind in zip(row, kinds, strict=True)) + "</tr>"
        for row in rows
    )
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f'<div class="wide"><table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


@dataclass(frozen=True)
class Branch:
    """A row of a tree and the rows below it."""

    cells: tuple[str, ...]
    inner: tuple["Branch", ...] = ()
    opened: bool = False
    """Whether the rows below it are seen at first."""


def tree(header: Sequence[str], branches: Iterable[Branch], *, numbers: Collection[int] = ()) -> str:
    """Rows that open and close without a script; texts are escaped here, ``numbers`` are aligned to the right."""
    kinds = [' class="number"' if column in numbers else "" for column in range(len(header))]
    rows = "".join(_branch(branch, kinds, 0) for branch in branches)
    return (
        f'<div class="wide"><div class="tree"><div class="row head">{_cells(header, kinds, 0)}</div>{rows}</div></div>'
    )


def _branch(branch: Branch, kinds: Sequence[str], depth: int) -> str:
    cells = _cells(branch.cells, kinds, depth)
    if not branch.inner:
        return f'<div class="row">{cells}</div>'
    inner = "".join(_branch(one, kinds, depth + 1) for one in branch.inner)
    return f'<details{" open" if branch.opened else ""}><summary class="row">{cells}</summary>{inner}</details>'


def _cells(cells: Sequence[str], kinds: Sequence[str], depth: int) -> str:
    """Columns stand below each other at every depth: the first cell is indented, not the row."""
    first, *others = (f"<span{kind}>{escape(cell)}</span>" for cell, kind in zip(cells, kinds, strict=True))
    return f'<span class="name" style="padding-left:{0.4 + 1.1 * depth:.1f}em">{first}</span>{"".join(others)}'
