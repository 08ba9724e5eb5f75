"""The page that shows what a model did with one text, from the document of ``View.as_dict()``."""

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from clearhead.pages.bundle import script
from clearhead.pages.document import standalone
from clearhead.pages.packing import packed

BODY = '<div id="look"></div>\n<noscript><p>This page draws its figures with a script of its own.</p></noscript>'
LONGEST = 60
"""Characters of the text that a title shows."""


def look_page(document: Mapping[str, Any]) -> str:
    """One HTML file that shows a document of ``View.as_dict()``, with everything that it needs inside."""
    text = str(document.get("text", ""))
    shown = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    return standalone(
        title=f"{shown} · clearhead look" if shown else "clearhead look",
        body=BODY,
        style=look_style(),
        script=script("look-main.js"),
        data=packed(document),
    )


def look_style() -> str:
    """The style sheet of the page."""
    return (files("clearhead.pages") / "look.css").read_text(encoding="utf-8")
