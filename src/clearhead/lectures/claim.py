"""A claim of the lectures: its statement, its verdict, and where it is proved. Nothing here imports torch."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from clearhead.lectures.evidence import Evidence
from clearhead.lectures.formula import plain

Verdict = Literal["holds", "holds under a condition", "slip in the notes"]

LECTURES = {
    "L0": "Transformer notes: the formulas",
    "L1": "Slides: from seq2seq to the Transformer",
    "L2": "Notes: motivation and tricks",
    "L3": "Problems: parallel time and two dimensions",
    "L4": "Complexity, parameters, scaling, disentangled attention",
}


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
    """The condition, or the correction where the notes have a slip."""

    @property
    def lecture(self) -> str:
        """The lecture it comes from."""
        return self.id.partition(".")[0]

    @property
    def formula(self) -> str:
        """The formula in plain text, a line each."""
        return plain(self.latex)

    def demonstrate(self) -> Evidence:
        """Run the demonstration, without a seed and without catching errors, unlike ``clearhead.demonstrate``."""
        module, _, name = self.demonstration.partition(":")
        function: Any = getattr(import_module(f"clearhead.lectures.demonstrations.{module}"), name)
        evidence: Evidence = function()
        return evidence
