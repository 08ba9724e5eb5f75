"""An exercise: its task, its right answer as a function, and typical mistakes as functions too.

An answer is compared with the right one on a few cases, and if it differs, with every known mistake: what agrees with
a mistake gets that mistake's message. Nothing here imports torch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Case = tuple[Any, ...]
"""The arguments of one call: numbers, or nested lists that become tensors."""


@dataclass(frozen=True)
class Mistake:
    """A typical wrong answer."""

    answer: Callable[..., Any]
    says: str
    """What is wrong with it, said to the student."""


@dataclass(frozen=True)
class Exercise:
    """One exercise."""

    id: str
    """Lecture and number: ``2.3``."""
    claim: str
    """The claim to read about it: ``L2.9``."""
    title: str
    task: str
    """What to answer."""
    right: Callable[..., Any]
    mistakes: tuple[Mistake, ...]
    arguments: tuple[str, ...] = ()
    """The arguments of ``answer``; none if the answer is a number."""
    cases: tuple[Case, ...] = ((),)
    tolerance: float = 1e-4
    """The largest relative deviation; answers in decimals need some."""

    @property
    def lecture(self) -> str:
        """The lecture it belongs to: ``L2``."""
        return f"L{self.id.partition('.')[0]}"

    @property
    def takes_tensors(self) -> bool:
        """Whether an argument is a tensor, so that the answer must be code."""
        return any(isinstance(argument, list) for case in self.cases for argument in case)

    @property
    def how(self) -> str:
        """How to hand in an answer."""
        call = f"answer({', '.join(self.arguments)})"
        if self.takes_tensors:
            return f"a file that defines {call}; the arguments are torch tensors"
        if self.arguments:
            return f"a formula in {', '.join(self.arguments)}, or a file that defines {call}"
        return "a number, or a file that defines answer"
