"""Time from opening a page of ``clearhead look`` to its first picture, in chromium, driven by playwright.

    python -m benchmarks.look_page [--rounds 5]

An answer of 100 tokens with 6 layers of 8 heads, and one of 512 with as many heads as its page keeps; medians.
"""

import argparse
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright
from tests.pages.documents import seq2seq

from clearhead.pages import look_page

CASES = ((100, 6, 8), (512, 1, 5))
"""Tokens, layers and heads."""
FIRST = "performance.getEntriesByName('first-picture')"


def seconds(browser: Any, page: Path) -> float:
    """Seconds until the first picture is drawn."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    opened.goto(page.as_uri())
    opened.wait_for_function(f"{FIRST}.length")
    taken = float(opened.evaluate(f"{FIRST}[0].startTime")) / 1000
    context.close()
    return taken


def main() -> None:
    """Print a line for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for length, layers, heads in CASES:
            text = " ".join(f"w{number}" for number in range(length - 1)) + " </s>"
            page = Path(folder) / "look.html"
            page.write_text(look_page(seq2seq(text, text, layers=layers, heads=heads)), encoding="utf-8")
            times = [seconds(browser, page) for _ in range(rounds)]
            size = page.stat().st_size / 1e6
            print(f"{length} tokens, {layers} layers of {heads} heads, {size:.1f} MB: {statistics.median(times):.2f} s")
        browser.close()


if __name__ == "__main__":
    main()
