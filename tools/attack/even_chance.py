"""Chance that spreads: a few cases touch every choice of a generator."""

import random
from typing import Any


class EvenChance(random.Random):
    """``choice`` takes every option once, in random order, before it takes any of them again."""

    def __init__(self, seed: str) -> None:
        super().__init__(seed)
        self._left: dict[str, list[Any]] = {}

    def choice(self, options: Any) -> Any:
        """The next of these options; sequences that read alike are the same one."""
        left = self._left.setdefault(repr(options), [])
        if not left:
            left.extend(options)
            self.shuffle(left)
        return left.pop()
