"""A stepper that is watched: what the next steps would take is asked for before it is taken.

Shapes: b lines, k beams of a line, V tokens of the vocabulary.
"""

from collections.abc import Callable

from torch import Tensor

from clearhead.decoding.stepper import Stepper

FIRST = 16
"""Tokens that every answer has room for from the start; from then on the room doubles."""


class GuardedStepper:
    """Another stepper, and a check whenever the room that answers need is about to double.

    ``check`` is given lines and tokens; it raises ``DoesNotFit`` if there is no memory for as many.
    """

    def __init__(self, stepper: Stepper, check: Callable[[int, int], None]) -> None:
        self._stepper, self._check = stepper, check
        self._length, self._room = 0, FIRST

    def step(self, ids: Tensor) -> Tensor:
        """Feed the next token to every beam."""
        self._length += 1
        if self._length > self._room:
            self._room *= 2
            self._check(len(ids), self._room)
        return self._stepper.step(ids)

    def keep(self, lines: Tensor, beams: Tensor | None = None) -> None:
        """Go on with these lines and beams."""
        self._stepper.keep(lines, beams)
