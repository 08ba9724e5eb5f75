"""The page stands alone: one script of its own, no outside reference, every claim, readable without seeing."""

import re
from dataclasses import replace
from html.parser import HTMLParser

from clearhead.lectures import Outcome, claims
from clearhead.lectures.article import article
from clearhead.lectures.page import page
from tests.drawing.test_html import check
from tests.lectures.outcomes import outcome

VOID = {"meta", "link", "mspace", "br", "input"}


class Reader(HTMLParser):
    """Checks that every element is closed, and collects ids, links and tags."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(str(value))
            if name in ("href", "src"):
                self.links.append(str(value))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)


def test_the_page_stands_alone() -> None:
    outcomes = [outcome(claim.id) for claim in claims()]
    text = page(outcomes)
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    assert {"img", "iframe", "object"}.isdisjoint(reader.tags)
    assert reader.tags.count("script") == 1
    assert not re.search(r"<[^>]*\s(?:style|on\w+)=", text.partition("<script")[0]), "the policy forbids it"
    assert all(link.startswith(("#", "data:,")) for link in reader.links)
    assert {link[1:] for link in reader.links if link.startswith("#")} <= set(reader.ids)
    assert len(set(reader.ids)) == len(reader.ids)
    assert "@import" not in text
    assert not re.search(r"url\(", text)
    # the only addresses are names of XML namespaces, which nobody fetches
    assert set(re.findall(r"https?://[^\"' <]+", text)) == {"http://www.w3.org/2000/svg"}
    for claim in claims():
        assert claim.id in reader.ids
    assert reader.tags.count("math") >= len(claims())
    assert "prefers-color-scheme: dark" in text
    assert 'name="viewport"' in text
    assert f"{len(claims())} of {len(claims())} claims reproduced" in text


def test_a_failure_is_shown() -> None:
    claim = claims()[0]
    text = page([Outcome(claim, None, 0.1, "RuntimeError: 2 < 3")])
    assert "The demonstration failed: RuntimeError: 2 &lt; 3" in text
    assert "0 of 1 claims reproduced" in text


def test_a_notebook_shows_what_the_page_shows() -> None:
    one = outcome("L4.8")
    html = one._repr_html_()
    root = check(html)
    assert one.evidence is not None
    assert len(list(root.iter("{http://www.w3.org/2000/svg}svg"))) == len(one.evidence.figures) > 0
    assert article(one.claim, one.evidence) in html
    assert article(one.claim, one.evidence) in page([one])
    assert html.count("✓") == len(one.evidence.measures) + len(one.evidence.wrong) + 1
    assert '✓<span class="word"> reproduced' in html
    assert f"{one.seconds:.1f} s" not in html  # the same outcome looks the same every time


def test_one_honest_line() -> None:
    one = outcome("L4.8")
    verdict = f"{one.claim.id} {one.claim.title}: {one.claim.verdict}"
    assert repr(one) == f"Outcome({verdict}, reproduced)"
    assert repr(Outcome(one.claim, None, 0.1, "RuntimeError: no")) == f"Outcome({verdict}, not reproduced)"


def test_a_notebook_shows_a_failure_escaped() -> None:
    attack = "<script>alert(1)</script>"
    claim = replace(claims()[0], title=attack, statement=attack)
    html = Outcome(claim, None, 0.1, attack)._repr_html_()
    check(html)
    assert html.count("&lt;script&gt;") == 3
    assert '✗<span class="word"> not reproduced' in html
