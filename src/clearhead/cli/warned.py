"""Warnings about examples, on standard error: a few are shown, the others counted."""

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from clearhead.predictor import Predictor, unknown_words

WARNINGS = 10
"""Warnings of a kind that are shown; the others are counted."""


class Warnings:
    """Shows the first warnings of each kind, and counts the rest."""

    def __init__(self) -> None:
        self._count = Counter[str]()

    def warn(self, kind: str, message: str) -> None:
        """Show a warning, unless there were many of its kind."""
        self._count[kind] += 1
        if self._count[kind] <= WARNINGS:
            self.say(message)

    def conclude(self) -> None:
        """Say how many were not shown."""
        for count in self._count.values():
            if count > WARNINGS:
                self.say(f"… and {count - WARNINGS:,} more warnings of this kind")

    def say(self, message: str) -> None:
        """One line for people."""
        print(message, file=sys.stderr)


def warn_of_unknown(predictor: Predictor, examples: Sequence[Any], where: str) -> None:
    """Name examples with text that the model reads as <unk>."""
    warnings = Warnings()
    for side, codec, rows in predictor.unfamiliar(examples):
        for example, unknown in zip(examples, rows, strict=True):
            if unknown:
                warnings.warn("unknown", f"{where}, line {example.line}: {unknown_words(codec, unknown, side=side)}")
    warnings.conclude()
