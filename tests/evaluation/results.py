"""Results made by hand, one for each thing that models are judged on."""

from collections.abc import Sequence

import numpy as np

from clearhead.evaluation import LabelResults, PairResults, Results, TextResults
from clearhead.predictor import ForcedLine
from clearhead.recipe import Material

SOURCES = ["cat", "dog", "tomato"]
REFERENCES = [["K AE T"], ["D AO G"], ["T AH M EY T OW", "T AH M AA T OW"]]
GOOD = ["K AE T", "D AO G", "T AH M AA T OW"]
BAD = ["K T", "T AO G", "M AA T"]


def forced(line: Sequence[float], right: int) -> ForcedLine:
    return ForcedLine([float(np.log(p)) for p in line], right)


def pairs(answers: Sequence[str] = GOOD, *, sure: float = 0.9) -> PairResults:
    """Answers, and a model that gives every token of the four references this probability."""
    lines = [forced([sure] * (len(text.split()) + 1), int(sure > 0.5) * 3) for known in REFERENCES for text in known]
    return PairResults(SOURCES, REFERENCES, lambda: answers, lambda: lines, spaced=True)


def texts(*, sure: float = 0.9) -> TextResults:
    return TextResults(["a b", "c", "d e"], [forced([sure] * n, int(sure > 0.5)) for n in (3, 2, 3)], "tokens")


def labels(guesses: Sequence[int] = (0, 1, 2, 1), *, sure: float = 0.9) -> LabelResults:
    """Four texts of three classes, each given one of them with this probability."""
    log_p = np.log(np.full((4, 3), (1 - sure) / 2))
    log_p[np.arange(4), list(guesses)] = np.log(sure)
    return LabelResults(["a", "b", "c", "d"], ["x", "y", "z"], np.array([0, 1, 2, 1]), log_p, "texts")


def perfect_and_poor(material: Material) -> tuple[Results, Results]:
    """What a good model and a poor one do."""
    if material in ("symbols", "sentences"):
        return pairs(), pairs(BAD, sure=0.1)
    if material in ("labels", "pictures"):
        return labels(), labels((1, 1, 0, 0))
    return texts(), texts(sure=0.1)
