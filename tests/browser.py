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


@pytest.fixture
def open_page(browser: Any) -> Iterator[Open]:
    """A function that opens a page: ``open_page(path, width=1280, height=900, dark=False)``."""
    contexts: list[Any] = []
    complaints: list[str] = []

    def opened(where: Path | str, *, width: int = 1280, height: int = 900, dark: bool = False, **options: Any) -> Any:
        home = where.resolve().as_uri() if isinstance(where, Path) else where
        scheme = "dark" if dark else "light"
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, accept_downloads=True, **options
        )
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        origin = "/".join(home.split("/")[:3]) if home.startswith("http") else home

        def check(route: Any) -> None:
            if route.request.url.startswith((origin, "data:", "blob:")):
                route.continue_()
            else:
                complaints.append(f"asks for {route.request.url}")
                route.abort()

        page.route("**/*", check)
        page.on("console", lambda said: complaints.append(f"console: {said.text}") if said.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.goto(home)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not complaints, "\n".join(complaints)


def violations(page: Any) -> list[str]:
    """What axe-core finds wrong with a page, a line each."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {one['help']} ({node['target']})" for one in found for node in one["nodes"]]
