"""What a demonstration returns: predictions and observations, side by side. Nothing here imports torch.

Verdicts are based on values, counts and bytes, never on time.
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
    """One measured quantity."""

    what: str
    """Its name, in a few words."""
    predicted: Value
    """The value, or the bound, that the claim predicts."""
    observed: Value
    """The value measured on this machine."""
    relation: Literal["=", "≤", "≥"] = "="
    """Whether the prediction is a value, an upper or a lower bound."""
    tolerance: float = 0.0
    """The largest deviation allowed, for the rounding of float32 or the spread of a sample; 0 for exact equality."""

    @property
    def agrees(self) -> bool:
        """Whether the observation agrees with the prediction."""
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
        """The prediction with its bound and tolerance: ``64 ± 3``, ``≤ 1e-05``."""
        relation = "" if self.relation == "=" else f"{self.relation} "
        spread = f" ± {shown(self.tolerance)}" if self.tolerance else ""
        return f"{relation}{shown(self.predicted)}{spread}"


@dataclass(frozen=True)
class Wrong:
    """A variant that is wrong on purpose, measured the same way: a check that accepts it proves nothing."""

    what: str
    """What is wrong about it."""
    measure: Measure
    broken: str = ""
    """What was broken on purpose while this was measured: ``clearhead.attention.context.causal_mask``. All wrong
    variants of the claims are the product itself, with one part broken."""

    @property
    def rejected(self) -> bool:
        """Whether the measure rejects it."""
        return not self.measure.agrees


@dataclass(frozen=True)
class EvidenceTable:
    """A table of values."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]

    @property
    def cells(self) -> tuple[tuple[str, ...], ...]:
        """The rows as people read them."""
        return tuple(tuple(shown(value) for value in row) for row in self.rows)


@dataclass(frozen=True)
class Evidence:
    """The result of a demonstration: measures that must agree, and wrong variants that must not."""

    measures: tuple[Measure, ...]
    wrong: tuple[Wrong, ...]
    tables: tuple[EvidenceTable, ...] = ()
    figures: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = field(default=())
    """What a reader should notice, one sentence each."""

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
        """Whether every wrong variant is rejected."""
        return all(wrong.rejected for wrong in self.wrong)


def shown(value: Value) -> str:
    """Format a value: whole numbers with separators, others to four digits.

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
