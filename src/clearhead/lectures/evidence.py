"""What a demonstration hands back: what the claim predicts beside what was observed. Nothing here imports torch.

A verdict rests on values, counts and bytes, never on a clock.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from clearhead.drawing import text
from clearhead.drawing.figure import Figure

Value = int | float | str | bool


@dataclass(frozen=True)
class Measure:
    """One thing that was looked at."""

    what: str
    """In a few words."""
    predicted: Value
    """What the claim says it is, or the bound that the claim sets."""
    observed: Value
    """What this machine found."""
    relation: Literal["=", "≤", "≥"] = "="
    """Whether the prediction is a value, an upper or a lower bound."""
    tolerance: float = 0.0
    """How far a number may be off: the rounding of float32, or the spread of a sample. 0: exactly equal."""

    @property
    def agrees(self) -> bool:
        """Whether the observation is what the claim predicts."""
        if isinstance(self.predicted, str | bool) or isinstance(self.observed, str | bool):
            return type(self.predicted) is type(self.observed) and self.predicted == self.observed
        if not math.isfinite(self.observed):
            return False
        if self.relation == "=":
            return abs(self.observed - self.predicted) <= self.tolerance
        beyond = self.observed - self.predicted if self.relation == "≤" else self.predicted - self.observed
        return beyond <= self.tolerance

    @property
    def observation(self) -> str:
        """The observed value as people read it."""
        return shown(self.observed)

    @property
    def expectation(self) -> str:
        """The prediction as people read it: ``64 ± 3``, ``≤ 1e-05``."""
        relation = "" if self.relation == "=" else f"{self.relation} "
        spread = f" ± {shown(self.tolerance)}" if self.tolerance else ""
        return f"{relation}{shown(self.predicted)}{spread}"


@dataclass(frozen=True)
class Wrong:
    """A variant that is wrong on purpose, put to the same measure: a check that accepts it is no check."""

    what: str
    """What is wrong about it."""
    measure: Measure

    @property
    def rejected(self) -> bool:
        """Whether the measure tells it from the right one."""
        return not self.measure.agrees


@dataclass(frozen=True)
class EvidenceTable:
    """Numbers that say more side by side."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]

    @property
    def cells(self) -> tuple[tuple[str, ...], ...]:
        """The rows as people read them."""
        return tuple(tuple(shown(value) for value in row) for row in self.rows)


@dataclass(frozen=True)
class Evidence:
    """What was found: the measures that must agree and the wrong variants that must not."""

    measures: tuple[Measure, ...]
    wrong: tuple[Wrong, ...]
    tables: tuple[EvidenceTable, ...] = ()
    figures: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = field(default=())
    """What a reader should see in them, a sentence each."""

    def __post_init__(self) -> None:
        if not self.measures or not self.wrong:
            raise ValueError("evidence needs a measure and a wrong variant")

    def drawn(self) -> Iterator[str]:
        """The figures, drawn with characters for a terminal."""
        return map(text, self.figures)

    @property
    def agrees(self) -> bool:
        """Whether every measure is as predicted."""
        return all(measure.agrees for measure in self.measures)

    @property
    def rejects(self) -> bool:
        """Whether every wrong variant is told from the right one."""
        return all(wrong.rejected for wrong in self.wrong)


def shown(value: Value) -> str:
    """A value as people read it: whole numbers with separators, others to four digits.

    >>> shown(1234567), shown(0.0156254), shown(3.0), shown(2.4e-7), shown(True)
    ('1,234,567', '0.01563', '3', '2.4e-07', 'yes')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e15):
        return f"{int(value):,}"
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
