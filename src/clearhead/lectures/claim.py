"""A claim of the lectures: what it says, whether that is so, and where it is shown. Nothing here imports torch."""

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
    """One entry of the registry; the work is done by the demonstration that it names."""

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
    """Where the product has it: ``clearhead.attention.score``."""
    test: str
    """The test that proves it: ``tests/attention/test_attend.py::test_L0_2_…``."""
    demonstration: str
    """``module:function`` below ``clearhead.lectures.demonstrations``; returns Evidence."""
    right: str = ""
    """The condition, or what is right where the notes slip."""

    @property
    def lecture(self) -> str:
        """The lecture that it comes from."""
        return self.id.partition(".")[0]

    @property
    def formula(self) -> str:
        """The formula in plain text, a line each."""
        return plain(self.latex)

    def demonstrate(self) -> Evidence:
        """Run the demonstration as it is; imports torch. ``clearhead.demonstrate`` also seeds it and catches errors."""
        module, _, name = self.demonstration.partition(":")
        function: Any = getattr(import_module(f"clearhead.lectures.demonstrations.{module}"), name)
        evidence: Evidence = function()
        return evidence
