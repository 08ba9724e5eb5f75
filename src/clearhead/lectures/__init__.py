"""The claims of the lectures, as code that runs and shows its evidence.

Listing the claims does not import torch; demonstrating one does.
"""

from clearhead.drawing.figure import Bars, Figure, Heat, Lines, Series
from clearhead.lectures.claim import LECTURES, VERDICTS, Claim, Place, Try, Verdict
from clearhead.lectures.evidence import Evidence, EvidenceTable, Measure, Value, Wrong, shown
from clearhead.lectures.outcome import Outcome, demonstrate
from clearhead.lectures.page import save_lecture_page
from clearhead.lectures.registry import claims, find_claims

__all__ = [
    "LECTURES",
    "VERDICTS",
    "Bars",
    "Claim",
    "Evidence",
    "EvidenceTable",
    "Figure",
    "Heat",
    "Lines",
    "Measure",
    "Outcome",
    "Place",
    "Series",
    "Try",
    "Value",
    "Verdict",
    "Wrong",
    "claims",
    "demonstrate",
    "find_claims",
    "save_lecture_page",
    "shown",
]
