"""The pages that are made from the code are up to date, and no claim lacks its test."""

import re
from pathlib import Path

import pytest
from tools.make_docs import PAGES, claims_page

from clearhead.lectures import Claim, claims

ROOT = Path(__file__).parent.parent
CLAIMS = claims_page()


@pytest.mark.parametrize("page", PAGES)
def test_pages_are_up_to_date(page: str) -> None:
    assert (ROOT / page).read_text(encoding="utf-8") == PAGES[page](), "run `make docs`"


@pytest.mark.parametrize("claim", claims(), ids=lambda claim: claim.id)
def test_every_claim_has_a_module_and_a_test(claim: Claim) -> None:
    row = re.search(rf"^\| {re.escape(claim.id)} \| .* \| (.*) \| (.*) \|$", CLAIMS, re.MULTILINE)
    assert row
    assert row[1], f"no module cites {claim.id}"
    assert row[2], f"no test is named test_{claim.id.replace('.', '_')}_…"
