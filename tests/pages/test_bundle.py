"""Pages are one file: modules are joined in order, and keep to the syntax that joining understands."""

import re
from importlib.resources import files
from pathlib import Path

import pytest

from clearhead.pages import bundle, script
from clearhead.pages.bundle import _EXPORT, _IMPORT

OURS = sorted(path.name for path in Path(str(files("clearhead.pages"))).glob("*.js"))


def test_what_is_imported_stands_first_and_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.js").write_text('import { b, c } from "./b.js";\nimport { c } from "./c.js";\nb(c);\n')
    (tmp_path / "b.js").write_text('import { c } from "./c.js";\nexport function b() { return c; }\n')
    (tmp_path / "c.js").write_text("export const c = 1;\n")
    monkeypatch.setattr(bundle, "files", lambda package: tmp_path)
    assert script("a.js") == "const c=1;\nfunction b(){return c;}\nb(c);\n"
    (tmp_path / "c.js").write_text('import { a } from "./a.js";\n')
    with pytest.raises(ValueError, match=r"modules import each other: a.js → b.js → c.js → a.js"):
        script("a.js")


@pytest.mark.parametrize("name", OURS)
def test_modules_use_the_syntax_that_can_be_joined(name: str) -> None:
    left = _EXPORT.sub("", _IMPORT.sub("", (files("clearhead.pages") / name).read_text(encoding="utf-8")))
    assert not re.search(r"^(import|export)\b", left, re.MULTILINE)


def test_a_name_stands_in_one_module() -> None:
    homes: dict[str, str] = {}
    for name in OURS:
        text = (files("clearhead.pages") / name).read_text(encoding="utf-8")
        for found in re.findall(r"^(?:export )?(?:async )?(?:function\*?|const|let|class) (\w+)", text, re.MULTILINE):
            assert homes.setdefault(found, name) == name, f"{found} is in {homes[found]} and in {name}"
