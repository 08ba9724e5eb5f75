"""Phrases that say something else than they mean, or that no technical writer would use, do not come back."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ODD = {
    "behind it has any": "later … have no influence",
    "a key behind it": "a later key",
    "behind each other": "sequential",
    "behind a tab": "after a tab",
    "told together": "reported at once",
    "to the bit": "bit for bit",
    "goes on with": "continues",
    "go on with": "continue",
    "mend these": "fix these",
    "dearer": "more expensive",
    "nobody said": "registered without a cost",
    "nobody knows": "unknown",
    "nobody asked": "was not asked for",
    "settings, for people": "what the settings are",
    "looks at dev": "evaluations on dev",
    "look at dev": "an evaluation on dev",
    "may be had": "is available",
}
"""Odd phrases, and what to write instead."""


def odd_phrases(text: str) -> set[str]:
    """The odd phrases in a text, also across the end of a line."""
    flat = re.sub(r'["\s#]+', " ", text).lower()
    return {phrase for phrase in ODD if re.search(rf"\b{re.escape(phrase)}\b", flat)}


def files() -> list[Path]:
    """Everything that users and readers of the code see."""
    found = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.toml")]
    return [*found, *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"))]


def test_no_odd_phrase_is_left() -> None:
    odd = {str(path.relative_to(ROOT)): odd_phrases(path.read_text(encoding="utf-8")) for path in files()}
    assert {name: found for name, found in odd.items() if found} == {}


@pytest.mark.parametrize("text", ["No query sees a key behind it.", "resumed to\n    the bit", "Settings, for people."])
def test_an_odd_phrase_is_noticed(text: str) -> None:
    assert odd_phrases(text)
