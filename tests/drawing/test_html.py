"""HTML for notebooks: escaped, well-formed, without a script, a request or a rule that reaches the rest of the page."""

import re
import xml.etree.ElementTree as ET

from clearhead.drawing.html import NOTEBOOK_STYLE, Branch, facts, fragment, table, tree

ATTACK = '<script>alert("1")</script>&"\''


def check(html: str) -> ET.Element:
    """Well-formed, nothing that runs, nothing that is fetched."""
    root = ET.fromstring(re.sub("<details open>", '<details open="">', html))
    assert not any(node.tag.split("}")[-1] in ("script", "link", "iframe", "img", "object") for node in root.iter())
    for node in root.iter():
        assert not any(name.startswith("on") or name in ("href", "src") for name in node.attrib), node.attrib
    assert not re.search(r"url\(|@import", html)
    return root


def texts(root: ET.Element, tag: str) -> list[str]:
    return ["".join(node.itertext()) for node in root.iter(tag)]


def test_texts_are_escaped_everywhere() -> None:
    parts = (
        table([ATTACK], [[ATTACK]], caption=ATTACK),
        facts({ATTACK: ATTACK}),
        tree([ATTACK], [Branch((ATTACK,), (Branch((ATTACK,)),))]),
    )
    for part in parts:
        root = check(fragment(part))
        assert "".join(root.itertext()).count(ATTACK) == part.count("&lt;script&gt;") >= 2


def test_numbers_are_aligned_to_the_right() -> None:
    root = check(table(["name", "n"], [["a", 1], ["b", 22]], numbers={1}))
    assert [node.text for node in root.iter("td") if node.get("class") == "number"] == ["1", "22"]
    assert [node.text for node in root.iter("th") if node.get("class") == "number"] == ["n"]


def test_a_tree_opens_and_closes_without_a_script() -> None:
    inner = (Branch(("leaf", "1")), Branch(("branch", "2"), (Branch(("deep", "3")),)))
    root = check(tree(["name", "n"], [Branch(("top", "6"), inner, opened=True)], numbers={1}))
    assert [details.get("open") for details in root.iter("details")] == ["", None]
    assert texts(root, "summary") == ["top6", "branch2"]
    assert [node.text for node in root.iter("span") if node.get("class") == "number"] == ["n", "6", "1", "2", "3"]


def test_the_style_reaches_nothing_else_in_the_notebook() -> None:
    plain = re.sub(r"/\*.*?\*/", "", NOTEBOOK_STYLE, flags=re.DOTALL)
    selectors = [
        one.strip()
        for rule in re.findall(r"([^{}]+)\{", plain)
        if not rule.strip().startswith("@")
        for one in re.split(r",(?![^(]*\))", rule)
    ]
    assert len(selectors) > 40
    assert all(".clearhead" in one or one.startswith(".plot") for one in selectors), selectors
