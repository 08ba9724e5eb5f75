"""A stepper that checks the free memory before answers grow.

Shapes: b lines, k beams of a line, V entries of the vocabulary.
"""

from collections.abc import Callable

from torch import Tensor

from clearhead.decoding.stepper import Stepper

FIRST = 16
"""Tokens for which memory is checked at the start; this number doubles whenever it is reached."""


class GuardedStepper:
    """Wraps a stepper, and calls ``check`` whenever the length of answers is about to double.

    Args:
        stepper: the stepper.
        check: called with the number of lines and of tokens; raises ``DoesNotFit`` if memory does not suffice for them.
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
        """Continue with these lines and beams."""
        self._stepper.keep(lines, beams)
