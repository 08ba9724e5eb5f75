"""What long work tells whoever watches it: a stream of small events, given to a function of the caller's.

``clearhead.train(…, report=print)`` prints them. The command line turns them into a progress line, a notebook into a
curve; without ``report`` nothing is shown. Nothing here imports torch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Event:
    """One thing that happened.

    ``kind`` says what: a ``note`` or a ``warning`` for people, how far data are ready (``prepare``), the ``start`` and
    the ``end`` of the steps, a few steps of ``train``, an evaluation on ``dev``, or ``lines`` that were answered.
    """

    kind: Literal["note", "warning", "prepare", "start", "train", "dev", "end", "lines"]
    text: str = ""
    """One line for people."""
    step: int = 0
    """Steps, or lines, that are done."""
    steps: int | None = None
    """Steps, or lines, in all; None if that is not known."""
    values: Mapping[str, float] = field(default_factory=dict)
    """What was measured: loss, rate and tokens_per_second (train), scores (dev)."""
    best: bool = False
    """Whether this evaluation found the best model so far."""
    seconds: float = 0.0
    """Time since the start of the work, over all resumes."""
    seconds_left: float | None = None
    """Time to the end at this pace; None while that is not known."""
    category: str = ""
    """Of a warning: those of one category are about the same thing. Of a start: ``training``, or nothing for lines. Of
    a preparation: ``reading``, counted in bytes, ``encoding``, counted in examples, or
    ``aligning``, counted in passes over the pairs."""

    def __str__(self) -> str:
        return self.text


Listener = Callable[[Event], None]
"""What takes events."""


def ignore(event: Event) -> None:
    """Take an event, and do nothing."""
    del event
