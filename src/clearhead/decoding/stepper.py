"""The interface between search and models.

Shapes: b lines, k beams of a line, V entries of the vocabulary.
"""

import sys
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor


@runtime_checkable
class Stepper(Protocol):
    """A batch of lines being generated, each with the same number of beams and of tokens so far."""

    def step(self, ids: Tensor) -> Tensor:
        """Feed the next token to every beam, (b, k), and return the logits of the one after it, (b, k, V).

        The caller may overwrite the logits.
        """

    def keep(self, lines: Tensor, beams: Tensor | None = None) -> None:
        """Continue with some lines and drop the others.

        Args:
            lines: the lines to keep, (r,).
            beams: for each of them, which beam each new beam continues, (r, k); k may be larger than before. Default:
                the beams stay as they are.
        """


@dataclass(frozen=True)
class Hypothesis:
    """One candidate answer to a line."""

    tokens: list[int]
    """The tokens, without the end token."""
    log_probability: float
    """log p of all tokens, and of the end token if it was reached; NaN if it was not computed."""
    score: float
    """The value by which beams are ranked: log p divided by the length penalty; without a beam, log p."""
    finished: bool = True
    """False if the length limit was reached before the end token."""


def length_penalty(length: int, alpha: float) -> float:
    """GNMT's ((5 + |y|)/6)^α, where |y| includes the end token; 1 for α = 0."""
    try:
        return float(((5 + length) / 6) ** alpha)
    except OverflowError:  # all answers this long then get the same score, 0
        return sys.float_info.max
