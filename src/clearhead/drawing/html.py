"""HTML for notebooks: no script, no request to anywhere, readable on the notebook's own light or dark ground.

Text takes the colour of what surrounds it; other colours follow the theme that JupyterLab, VS Code or Colab says it
has, and are mid tones where no theme is known.
"""

from collections.abc import Collection, Iterable, Sequence
from html import escape
from importlib.resources import files

from clearhead.drawing.svg import STYLE

NOTEBOOK_STYLE = STYLE + (files("clearhead.drawing") / "notebook.css").read_text(encoding="utf-8")


def fragment(body: str, *, style: str = "") -> str:
    """A part of a page, as ``_repr_html_`` returns it: ``body`` (escaped already) with the style that it needs."""
    return f'<div class="clearhead"><style>{NOTEBOOK_STYLE}{style}</style>{body}</div>'


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
