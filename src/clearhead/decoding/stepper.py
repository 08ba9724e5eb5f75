"""What search needs of a model: lines that are written token by token.

Shapes: b lines, k beams of a line, V tokens of the vocabulary.
"""

import sys
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor


@runtime_checkable
class Stepper(Protocol):
    """A batch of lines, each with the same number of beams, that stand after the same number of tokens."""

    def step(self, ids: Tensor) -> Tensor:
        """Feed the next token to every beam, (b, k), and get the logits of the one after it, (b, k, V).

        The logits may be written over.
        """

    def keep(self, lines: Tensor, beams: Tensor | None = None) -> None:
        """Go on with these lines, (r,), and forget the others; row j of ``beams``, (r, k), says which beam of its
        line each new beam continues, of which there may be more than before; None if they stay as they are.
        """


@dataclass(frozen=True)
class Hypothesis:
    """One way to write a line."""

    tokens: list[int]
    """Without the end token."""
    log_probability: float
    """log p of all tokens, and of the end if it was reached; NaN if nobody asked."""
    score: float
    """What beams are ranked by: log p over the length penalty; where there is one hypothesis, log p itself."""
    finished: bool = True
    """False if the longest length was reached before the end."""


def length_penalty(length: int, alpha: float) -> float:
    """GNMT's ((5 + |y|)/6)^α, where the end counts as a token; 1 for α = 0."""
    try:
        return float(((5 + length) / 6) ** alpha)
    except OverflowError:  # then only the length counts, and all long answers are worth the same
        return sys.float_info.max
