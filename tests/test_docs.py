"""The pages that are made from the code are up to date, and no claim that is built lacks its test."""

import re
from pathlib import Path

import pytest
from tools.make_docs import PAGES, claims_page

ROOT = Path(__file__).parent.parent
BUILT = [
    "L0.1",
    "L0.2",
    "L0.3",
    "L0.7",
    "L0.10",
    "L0.11",
    "L0.12",
    "L0.13",
    "L1.1",
    "L1.2",
    "L1.3",
    "L1.4",
    "L1.5",
    "L1.6",
    "L1.7",
    "L1.8",
    "L1.9",
    "L1.10",
    "L2.4",
    "L2.5",
    "L2.6",
    "L2.7",
    "L2.8",
    "L2.9",
    "L2.10",
    "L2.11",
    "L3.1",
    "L3.2",
    "L3.5",
    "L4.5",
]


@pytest.mark.parametrize("page", PAGES)
def test_pages_are_up_to_date(page: str) -> None:
    assert (ROOT / page).read_text(encoding="utf-8") == PAGES[page](), "run `make docs`"


@pytest.mark.parametrize("claim", BUILT)
def test_every_built_claim_has_a_module_and_a_test(claim: str) -> None:
    row = re.search(rf"^\| {re.escape(claim)} \| (.*) \| (.*) \|$", claims_page(), re.MULTILINE)
    assert row, f"no test is named test_{claim.replace('.', '_')}_…"
    assert row[1], f"no module cites {claim}"
    assert row[2]
