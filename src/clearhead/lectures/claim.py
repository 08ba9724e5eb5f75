"""A claim of the lectures: its statement, its verdict, and where it is proved. Nothing here imports torch."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from clearhead.lectures.evidence import Evidence
from clearhead.lectures.formula import plain

Verdict = Literal["holds", "holds under a condition", "misprint", "convention", "disputed"]

VERDICTS: dict[Verdict, str] = {
    "holds": "true as it stands",
    "holds under a condition": "true if a condition is met that the notes do not state",
    "misprint": "a letter, an index or a shape is printed wrong; what is meant is clear",
    "convention": "true in the notes' own convention; most models and papers use another one",
    "disputed": "the notes make a statement that does not hold, or that can be read in a way that does not",
}
"""What each verdict means."""

LECTURES = {
    "L0": "Transformer notes: the formulas",
    "L1": "Slides: from seq2seq to the Transformer",
    "L2": "Notes: motivation and tricks",
    "L3": "Problems: parallel time and two dimensions",
    "L4": "Complexity, parameters, scaling, disentangled attention",
}


@dataclass(frozen=True)
class Place:
    """Where a claim stands in the notes of its lecture."""

    section: str
    """The heading it stands under, as the notes print it."""
    line: int
    """The first line, counted from 1."""
    last: int | None = None
    """The last line, where there are several."""

    def __str__(self) -> str:
        lines = f"line {self.line}" if self.last is None else f"lines {self.line}–{self.last}"
        return f"{self.section}, {lines}"


@dataclass(frozen=True)
class Try:
    """Something to change, and what to look for."""

    command: str
    """A command line that works as it stands: ``clearhead cost tiny model.heads=8``."""
    see: str
    """What the reader will see, as half a sentence: "the products stay the same"."""

    def __str__(self) -> str:
        return f"{self.command}: {self.see}"


@dataclass(frozen=True)
class Claim:
    """One entry of the registry; its demonstration does the work."""

    id: str
    """Lecture and number: ``L4.8``."""
    title: str
    """The claim in one line."""
    statement: str
    """The claim in words."""
    latex: str
    """The claim as a formula; ``\\\\`` starts a new line."""
    verdict: Verdict
    module: str
    """The module that implements it: ``clearhead.attention.score``."""
    test: str
    """The test that proves it: ``tests/attention/test_attend.py::test_L0_2_…``."""
    demonstration: str
    """``module:function`` below ``clearhead.lectures.demonstrations``; returns Evidence."""
    right: str = ""
    """The condition, or what is right where the notes are not."""
    place: Place = Place("", 0)
    """Where it stands in the notes; the list and the page follow this order."""
    printed: str = ""
    """The formula exactly as the notes print it, where it differs from ``latex``."""
    try_it: Try | None = None
    """What a reader can change."""
    trained: Try | None = None
    """Where to see it in a trained model: the demo's, ``runs/demo``, which ``make demo`` trains in three minutes."""
    words: str = ""
    """More words to find it by, such as the usual names of what it is about."""

    @property
    def lecture(self) -> str:
        """The lecture it comes from."""
        return self.id.partition(".")[0]

    @property
    def formula(self) -> str:
        """The formula in plain text, a line each."""
        return plain(self.latex)

    @property
    def printed_formula(self) -> str:
        """The formula as printed, in plain text; empty if it is the right one."""
        return plain(self.printed) if self.printed else ""

    @property
    def searchable(self) -> str:
        """Everything that a search looks at, in lower case."""
        said = (self.id, self.title, self.statement, self.formula, self.printed_formula, self.right, self.verdict)
        return " ".join((*said, self.place.section, self.module, self.words)).casefold()

    def as_json(self) -> dict[str, Any]:
        """What the list of ``clearhead lecture --json`` prints about it."""
        return {
            "id": self.id,
            "title": self.title,
            "verdict": self.verdict,
            "right": self.right,
            "module": self.module,
            "test": self.test,
            "section": self.place.section,
            "lines": [self.place.line, self.place.last or self.place.line],
            "formula": self.formula,
            "printed": self.printed_formula,
            "try": None if self.try_it is None else {"command": self.try_it.command, "see": self.try_it.see},
            "trained": None if self.trained is None else {"command": self.trained.command, "see": self.trained.see},
        }

    def demonstrate(self) -> Evidence:
        """Run the demonstration, without a seed and without catching errors, unlike ``clearhead.demonstrate``."""
        module, _, name = self.demonstration.partition(":")
        function: Any = getattr(import_module(f"clearhead.lectures.demonstrations.{module}"), name)
        evidence: Evidence = function()
        return evidence
