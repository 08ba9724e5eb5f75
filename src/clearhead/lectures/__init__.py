"""The claims of the lectures, as code that runs and shows its evidence.

Listing the claims does not import torch; demonstrating one does.
"""

from clearhead.drawing.figure import Bars, Figure, Heat, Lines, Series
from clearhead.lectures.breaking import BreakReport, break_product, breaks
from clearhead.lectures.breaks import Break
from clearhead.lectures.claim import LECTURES, VERDICTS, Claim, Place, Try, Verdict
from clearhead.lectures.evidence import Evidence, EvidenceTable, Measure, Value, Wrong, shown
from clearhead.lectures.exercises import Exercise, Judgement, check_exercise, exercises, find_exercise
from clearhead.lectures.outcome import Outcome, demonstrate
from clearhead.lectures.page import save_lecture_page
from clearhead.lectures.registry import claims, find_claims
from clearhead.lectures.serving import serve_lecture_page

__all__ = [
    "LECTURES",
    "VERDICTS",
    "Bars",
    "Break",
    "BreakReport",
    "Claim",
    "Evidence",
    "EvidenceTable",
    "Exercise",
    "Figure",
    "Heat",
    "Judgement",
    "Lines",
    "Measure",
    "Outcome",
    "Place",
    "Series",
    "Try",
    "Value",
    "Verdict",
    "Wrong",
    "break_product",
    "breaks",
    "check_exercise",
    "claims",
    "demonstrate",
    "exercises",
    "find_claims",
    "find_exercise",
    "save_lecture_page",
    "serve_lecture_page",
    "shown",
]
