"""Scripts without spare blanks are the same scripts."""

import re
from importlib.resources import files
from pathlib import Path

import pytest

from clearhead.pages.squeezing import squeezed

OURS = sorted(path.name for path in Path(str(files("clearhead.pages"))).glob("*.js"))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("const a = b + +c - -d;", "const a=b+ +c- -d;"),
        ("a = b  / c / d; // half\n  // whole line\n\n  e()", "a=b/c/d;\ne()"),
        ('say("a  //  b \\" c", x)', 'say("a  //  b \\" c",x)'),
        ("t = `a  ${ f(`b  ${ { c: 1 }.c }`) }  // d`;", "t=`a  ${ f(`b  ${ { c: 1 }.c }`) }  // d`;"),
        ("x.replace(/[/ ]  /g, y) / 2", "x.replace(/[/ ]  /g,y)/2"),
        ("return /a  b/.test(c)", "return/a  b/.test(c)"),
        ("for (const [a, b] of c) { await d in e }", "for(const[a,b]of c){await d in e}"),
        ("f(a) / g[0] / h", "f(a)/g[0]/h"),
        ("a\n\t+ b", "a\n+b"),
    ],
)
def test_blanks_go_where_they_mean_nothing(code: str, expected: str) -> None:
    assert squeezed(code) == expected
    assert squeezed(expected) == expected


@pytest.mark.parametrize("name", OURS)
def test_nothing_but_blanks_and_comments_is_lost(name: str) -> None:
    text = (files("clearhead.pages") / name).read_text(encoding="utf-8")
    bare = re.sub(r"(?m)^\s*//.*$|\s// .*$", "", text)
    assert re.sub(r"\s", "", squeezed(text)) == re.sub(r"\s", "", bare)
