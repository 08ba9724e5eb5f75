"""A page in a real browser: its own script runs, nothing else does, and its data arrive unharmed."""

from pathlib import Path

from clearhead.pages import standalone
from tests.browser import Open, violations

SCRIPT = 'document.querySelector("h1").textContent = JSON.parse(document.getElementById("data").textContent).word;'
BODY = '<main><h1>waiting</h1></main><script>document.title = "other";</script>'


def page(tmp_path: Path, word: str) -> Path:
    path = tmp_path / "page.html"
    data = {"word": word}
    path.write_text(standalone(title="a & b", body=BODY, style="h1 { color: #222; }", script=SCRIPT, data=data))
    return path


def test_the_script_runs_and_reads_data_that_look_like_tags(tmp_path: Path, browser: object) -> None:
    word = "</script><!-- ünï \u2028"
    context = browser.new_context()  # type: ignore[attr-defined]
    seen = context.new_page()
    seen.goto(page(tmp_path, word).as_uri())
    assert seen.locator("h1").text_content() == word
    assert seen.title() == "a & b", "a script that is not ours ran"
    context.close()


def test_it_is_accessible(tmp_path: Path, open_page: Open) -> None:
    path = tmp_path / "page.html"
    path.write_text(standalone(title="t", body="<main><h1>one</h1></main>", style=""))
    assert violations(open_page(path)) == []
