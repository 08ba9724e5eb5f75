"""Numbers that both a module and the formula of its cost rest on, each said once. Nothing here imports torch.

Where attention changes the way it is computed is decided in ``clearhead.attention.paths``, which has its thresholds.
"""

from typing import Final

VERSION: Final = "0.1.0"
"""The version of clearhead, here so that every layer can name it."""

BLOCK: Final = 128
"""Queries that are worked on together where scores depend on distances and are never held as a whole: the scores of a
block should stay in a cache of the processor."""

HIDDEN_RATIO: Final = 4
"""d_ff / d of a feed-forward net whose recipe names no width."""

GATES: Final = {"gru": 3, "lstm": 4, "elman": 1}
"""How many maps of the input, and of the state, a step of a recurrent cell takes."""

STATE_PARTS: Final = {"gru": 1, "lstm": 2, "elman": 1}
"""How many vectors the state of a recurrent cell consists of."""

DEVICE_NAMES: Final = r"auto|cpu|mps|cuda(:(0|[1-9][0-9]{0,2}))?"
"""What a device may be called, as a regular expression."""


def ngrams_within(reach: int) -> int:
    """How many n-grams, but for the token alone, contain a token and begin and end at most ``reach`` tokens away."""
    return (reach + 1) ** 2 - 1
