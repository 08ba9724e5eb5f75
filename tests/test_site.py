"""The documentation site builds without a warning, is complete, and asks no other host for anything."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest
from tools.site.notebooks import notebook_page
from tools.site.outside import turned

import clearhead

ROOT = Path(__file__).parent.parent
OUTSIDE = re.compile(
    r"""<(?!a\b)\w[^>]*\b(?:src|href|srcset|data|action)\s*=\s*["']?(?:https?:)?//[^>]*>"""
    r"""|url\(\s*["']?(?:https?:)?//[^)]*\)|@import[^;]*//[^;]*""",
    re.IGNORECASE,
)
"""What makes a browser ask another host: anything but a link that a reader may follow."""

pytestmark = pytest.mark.xdist_group("site")  # one process builds it, once


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `make site` builds it, but for the page of the lectures; without a network, in an empty home."""
    folder = tmp_path_factory.mktemp("site")
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    environment = os.environ | nowhere | {"NO_MKDOCS_2_WARNING": "1", "HOME": str(folder / "home")}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder / "site")]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    return folder / "site"


def test_every_page_is_there(site: Path) -> None:
    """Every page of docs/, those from outside, and one API page for each group of public names."""
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    pages |= {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.ipynb")}
    pages |= {
        Path(f"{name}.html")
        for name in ("index", "changelog", "contributing", "security", "commands", "notebooks/index")
    }
    pages |= {Path(f"api/{group}.html") for group in clearhead._CONTENTS}
    assert pages == {path.relative_to(site) for path in site.rglob("*.html")} - {
        Path("404.html"),
        Path("lectures.html"),
    }


def test_every_public_name_is_documented(site: Path) -> None:
    """With its signature or its members, under the name by which users call it."""
    for group, names in clearhead._CONTENTS.items():
        page = (site / "api" / f"{group}.html").read_text(encoding="utf-8")
        for name in names:
            assert re.search(rf'<h2 id="clearhead\.[^"]*{name}"', page), name
            assert re.search(rf"[>\s]clearhead\.{name}\s*<(/span|a )", page), name


def test_every_command_and_option_is_documented(site: Path) -> None:
    page = (site / "commands.html").read_text(encoding="utf-8")
    for command in ("train", "eval", "run", "score", "check", "presets", "show", "cost", "lecture", "import"):
        assert f'id="clearhead-{command}"' in page
    assert "<code>--resume</code>" in page


def test_search_knows_settings_names_and_claims(site: Path) -> None:
    """Also in pages that are opened from a folder, for which the index is a script."""
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    assert (site / "search" / "search_index.js").is_file()
    text = " ".join(entry["text"] + entry["title"] for entry in index["docs"])
    for word in ("bad_lines", "MultiHeadAttention", "L4.8", "install-completion", "CTranslate2"):
        assert word in text, word


def test_no_other_host_is_asked(site: Path) -> None:
    seen = 0
    for path in [*site.rglob("*.html"), *site.rglob("*.css"), *site.rglob("*.svg")]:
        found = OUTSIDE.search(path.read_text(encoding="utf-8"))
        assert not found, f"{path.relative_to(site)}: {found[0] if found else ''}"
        seen += 1
    assert seen > 40
    # a diagram of Mermaid is the one thing for which the theme's script would ask another host
    assert not any('class="mermaid"' in path.read_text(encoding="utf-8") for path in site.rglob("*.html"))


@pytest.mark.parametrize(
    "wrong",
    [
        '<script src="https://unpkg.com/iframe-worker/shim"></script>',
        '<link rel="stylesheet" href="https://fonts.example/css?family=Roboto">',
        "<img src='//example.org/pixel.gif'>",
        "body { background: url(https://example.org/paper.png) }",
        '@import "https://example.org/style.css";',
    ],
)
def test_a_page_that_asks_another_host_is_found(wrong: str) -> None:
    assert OUTSIDE.search(f"<p>before</p>{wrong}")
    assert not OUTSIDE.search('<p><a href="https://example.org">a link</a><img src="pictures/x.svg"></p>')


def test_links_lead_to_where_the_pages_stand() -> None:
    text = "[a](docs/recipe.md) [b](CONTRIBUTING.md#layers) [c](https://example.org) ![d](docs/pictures/x.svg)"
    assert turned(text, "README.md", "index.md") == (
        "[a](recipe.md) [b](contributing.md#layers) [c](https://example.org) ![d](pictures/x.svg)"
    )
    text = "[a](docs/notebooks/x.ipynb) [b](docs/notebooks)"
    assert turned(text, "README.md", "index.md") == "[a](notebooks/x.md) [b](notebooks/index.md)"
    text = "[a](../../CONTRIBUTING.md) [b](cost.md) [c](../recipe.md) [d](#here)"
    assert turned(text, "docs/tutorials/own.md", "tutorials/own.md") == (
        "[a](../contributing.md) [b](cost.md) [c](../recipe.md) [d](#here)"
    )


def test_notebooks_keep_their_outputs(tmp_path: Path) -> None:
    """Text, code, HTML, pictures and errors; an empty line inside of HTML must not end it."""
    v4 = nbformat.v4
    outputs = [
        v4.new_output("stream", text="1 < 2\n\nthird line\n"),
        v4.new_output("display_data", data={"text/html": "<table>\n\n<tr><td>5</td></tr></table>", "text/plain": "no"}),
        v4.new_output("display_data", data={"image/png": "iVBORw0KGgo=\n"}),
        v4.new_output("execute_result", data={"text/plain": "'answer'"}),
        v4.new_output("error", ename="E", evalue="e", traceback=["\x1b[31mE: e\x1b[0m"]),
    ]
    cells = [v4.new_markdown_cell("# A title\n\nWords."), v4.new_code_cell('x = "```"', outputs=outputs)]
    nbformat.write(v4.new_notebook(cells=cells), tmp_path / "one.ipynb")
    page = notebook_page(tmp_path / "one.ipynb")
    assert (page.path, page.title) == ("notebooks/one.md", "A title")
    assert '````python\nx = "```"\n````' in page.text
    assert "1 &lt; 2\n&#8203;\nthird line</pre>" in page.text
    assert "<table>\n<tr><td>5</td></tr></table></div>" in page.text
    assert 'src="data:image/png;base64,iVBORw0KGgo="' in page.text
    assert "<pre>'answer'</pre>" in page.text
    assert "<pre>E: e</pre>" in page.text
    for block in re.findall(r"<div.*?</div>", page.text, re.DOTALL):
        assert "\n\n" not in block


def test_the_pictures_are_well_formed() -> None:
    for path in (ROOT / "docs" / "pictures").glob("*.svg"):
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
