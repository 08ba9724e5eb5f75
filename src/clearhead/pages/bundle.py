"""Joins ES modules into one script.

A module says ``import { name } from "./other.js";`` in one line and puts ``export`` before a declaration; nothing else
of the module syntax is used (no default, no renaming, no ``import *``). All modules share one scope after joining, so
a name at the top level stands in one module only; a test holds all of this. Comments and spare blanks are left out.
"""

import re
from importlib.resources import files

from clearhead.pages.squeezing import squeezed

_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w-]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|let|class)\b)", re.MULTILINE)


def script(*names: str) -> str:
    """The modules with these names and all that they import, each once, what is imported first."""
    joined: dict[str, str] = {}
    for name in names:
        _add(name, joined, ())
    return "".join(joined.values())


def _add(name: str, joined: dict[str, str], importers: tuple[str, ...]) -> None:
    if name in importers:
        raise ValueError(f"modules import each other: {' → '.join([*importers, name])}")
    if name in joined:
        return
    text = (files("clearhead.pages") / name).read_text(encoding="utf-8")
    for imported in _IMPORT.findall(text):
        _add(imported, joined, (*importers, name))
    joined[name] = squeezed(_EXPORT.sub("", _IMPORT.sub("", text)))
