"""Hooks of mkdocs: pages that stand outside of docs/ join the site, with their links turned to where they stand there.

index.md, changelog.md, contributing.md, security.md   README.md and its like at the top of the repository
commands.md                                            what every command takes
api/…                                                  one page for every group of ``clearhead.__all__``
notebooks/…                                            the notebooks of docs/notebooks, with their stored outputs
lectures.html                                          what `clearhead lecture --all --html` wrote for `make site`
"""

from functools import cache
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools.site.api import api_pages
from tools.site.commands import commands_page
from tools.site.notebooks import notebook_list, notebook_page
from tools.site.outside import OUTSIDE, outside_page, turned
from tools.site.page import Page as SitePage

ROOT = Path(__file__).parent.parent.parent
LECTURES = ROOT / "build" / "lectures.html"
LECTURES_LINK = "[**Open the page**: every claim with its formula, its evidence and its figures](../lectures.html)"

WIDE = {"index.md": ["navigation"], "claims.md": ["toc"]}
"""What pages do without, as they need the room: the first has no neighbours, the claims are a table of five columns."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the generated pages to the navigation, which mkdocs.yml gives for all others."""
    nav = config.nav
    assert isinstance(nav, list)
    tabs = {title: pages for tab in nav for title, pages in tab.items()}
    tabs["Reference"].append({"API": [{page.title: page.path} for page in api_pages()]})
    notebooks = [{page.title: page.path} for page in _notebooks()]
    tabs["Tutorials"].append({"Notebooks": ["notebooks/index.md", *notebooks]})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages; a notebook stands beside its page, to be downloaded."""
    pages = [*map(outside_page, OUTSIDE), commands_page(), *api_pages(), *_notebooks(), notebook_list(_notebooks())]
    for page in pages:
        files.append(File.generated(config, page.path, content=page.text))
    if LECTURES.is_file():
        files.append(File.generated(config, LECTURES.name, abs_src_path=str(LECTURES)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Give wide pages their room, turn links that leave docs/, and name the page of the lectures if it was made."""
    del config
    page.meta["hide"] = WIDE.get(page.file.src_uri, [])
    if page.file.generated_by is None:
        markdown = turned(markdown, f"docs/{page.file.src_uri}", page.file.src_uri)
    made = files.get_file_from_path(LECTURES.name) is not None
    return markdown.replace("<!-- lectures.html -->", LECTURES_LINK if made else "")


@cache
def _notebooks() -> list[SitePage]:
    return [notebook_page(path) for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))]
