"""A real browser for tests of pages: Debian's chromium, driven by playwright.

``open_page`` opens a file or an address, and fails the test for every request to a foreign place, every error on the
console and every rule of axe-core that the page violates when ``accessible`` is asked for.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HOW = "no browser: `apt-get install chromium` (Debian, Ubuntu), or put chromium, chrome or chromium-browser on the PATH"
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")

PATIENCE = 120_000
"""Milliseconds for whatever a page is waited for: a busy machine is slow, and not wrong."""

Open = Callable[..., Any]


def executable() -> str | None:
    """The browser of this machine."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for the tests of a file; while it is open, no other event loop can run in this thread."""
    found = executable()
    if found is None:
        pytest.skip(HOW)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="module")
def tabs(browser: Any) -> list[Any]:
    """Pages that a test is done with: the next one uses them again, as each takes a process to start.

    Our pages store nothing, so that a tab that has left them remembers nothing of them.
    """
    return []


@pytest.fixture
def open_page(browser: Any, tabs: list[Any]) -> Iterator[Open]:
    """A function that opens a page: ``open_page(path, width=1280, height=900, dark=False)``.

    More options are those of a context of the browser, which is then the page's own.
    """
    own: list[Any] = []
    used: list[Any] = []
    complaints: list[str] = []

    def note(said: Any) -> None:
        if said.type == "error":
            complaints.append(f"console: {said.text}")

    def fail(error: Any) -> None:
        complaints.append(f"error: {error}")

    def opened(where: Path | str, *, width: int = 1280, height: int = 900, dark: bool = False, **options: Any) -> Any:
        home = where.resolve().as_uri() if isinstance(where, Path) else where
        again = tabs and not options
        page = tabs.pop() if again else browser.new_context(accept_downloads=True, **options).new_page()
        (own if options else used).append(page)
        page.set_default_timeout(PATIENCE)
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme="dark" if dark else "light")
        origin = "/".join(home.split("/")[:3]) if home.startswith("http") else home

        def check(route: Any) -> None:
            if route.request.url.startswith((origin, "data:", "blob:")):
                route.continue_()
            else:
                complaints.append(f"asks for {route.request.url}")
                route.abort()

        page.route("**/*", check)
        page.on("console", note)
        page.on("pageerror", fail)
        page.goto(home)
        return page

    yield opened
    for page in own:
        page.context.close()
    for page in used:
        page.remove_listener("console", note)
        page.remove_listener("pageerror", fail)
        page.unroute_all()
        page.mouse.move(0, 0)
        page.goto("about:blank")
        tabs.append(page)
    assert not complaints, "\n".join(complaints)


def violations(page: Any) -> list[str]:
    """What axe-core finds wrong with a page, a line each."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {one['help']} ({node['target']})" for one in found for node in one["nodes"]]
