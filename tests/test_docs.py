"""The pages that are made from the code are up to date, and no claim lacks its test."""

import re
import tomllib
from functools import cache
from pathlib import Path

import pytest
from tools.make_docs import PAGES, claims_page, sentence

from clearhead.lectures import Claim, claims

ROOT = Path(__file__).parent.parent


@cache
def page_of_claims() -> str:
    return claims_page()


@pytest.mark.parametrize("page", PAGES)
def test_pages_are_up_to_date(page: str) -> None:
    assert (ROOT / page).read_text(encoding="utf-8") == PAGES[page](), "run `make docs`"


@pytest.mark.parametrize("claim", claims(), ids=lambda claim: claim.id)
def test_every_claim_has_a_module_and_a_test(claim: Claim) -> None:
    row = re.search(rf"^\| {re.escape(claim.id)} \| .* \| (.*) \| (.*) \|$", page_of_claims(), re.MULTILINE)
    assert row
    assert row[1], f"no module cites {claim.id}"
    assert row[2], f"no test is named test_{claim.id.replace('.', '_')}_…"


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        ("L0.2: a test of N ≠ M.", "A test of N ≠ M."),
        ("L0.2, L1.1: softmax(x) is even.", "softmax(x) is even."),
        ("L0.11 (post-LN), L1.7; references: two\nmodels.\n\nMore.", "L0.11 (post-LN), L1.7; references: two models."),
        ("The wrong variant of L0.7: heads\n    in turn.", "The wrong variant of L0.7: heads in turn."),
    ],
)
def test_a_docstring_becomes_a_whole_sentence(docstring: str, expected: str) -> None:
    """Ids inside a sentence, and its second line, were once dropped."""
    assert sentence(docstring) == expected


BROKEN = re.compile(r"\( *[,;:)]|[,;:(] *[,;:]|\b(of|and|or|the|to|for) *([.,;:)]|$)|[,;:]$| [,;:.]")


def broken_sentences(page: str) -> list[str]:
    """Cells of a page that end in the middle, or in which a word is missing between punctuation."""
    text = re.sub(r"`[^`]*`", "code", page.replace(r"\|", "/"))
    cells = [cell.strip() for row in text.splitlines() if row.startswith("| L") for cell in re.split(r"\||<br>", row)]
    return [cell for cell in cells if BROKEN.search(cell) or cell.count("(") != cell.count(")")]


def test_no_sentence_of_the_claims_is_broken() -> None:
    assert broken_sentences(page_of_claims()) == []


def test_a_broken_sentence_is_noticed() -> None:
    for cell in (
        "(post-LN), ; references: BertModel",
        "The wrong variant of : features",
        "Heads of the",
        "a list,",
        "(see",
    ):
        assert broken_sentences(f"| L0.1 | a title | holds | `m.py` | `t.py`: {cell} |\n") == [f"code: {cell}"]


def test_contributing_names_the_layers_that_are_checked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    page = " ".join((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split())
    assert f"`{' → '.join(layers)}`" in page
