"""Pages at the top of the repository, such as README.md, and the links between them and docs/.

Every page is written for those who read it in the repository: README.md names ``docs/recipe.md``, a tutorial names
``../../CONTRIBUTING.md``. On the site these files stand elsewhere, and the links are turned.
"""

import posixpath
import re
from pathlib import Path

from tools.site.page import Page

ROOT = Path(__file__).parent.parent.parent
OUTSIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
"""Where each file stands on the site."""
_LINK = re.compile(r"(\]\(|<img src=\")([^)\"#:]+)")


def outside_page(name: str) -> Page:
    """README.md or its like as a page of the site."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return Page(OUTSIDE[name], name.removesuffix(".md").capitalize(), turned(text, name, OUTSIDE[name]))


def turned(text: str, source: str, page: str) -> str:
    """The text with its links turned: ``source`` is its file in the repository, ``page`` its place on the site."""

    def turn(link: re.Match[str]) -> str:
        opening, target = link.groups()
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        place = OUTSIDE.get(file, file.removeprefix("docs/"))
        if place == "notebooks":
            place = "notebooks/index.md"
        elif place.startswith("notebooks/"):
            place = place.removesuffix(".ipynb") + ".md"  # the page, which links to the notebook itself
        return opening + posixpath.relpath(place, posixpath.dirname(page) or ".")

    return _LINK.sub(turn, text)
