"""Stop sequences: text ends before the first of them."""

from collections.abc import Sequence


def cut_at(text: str, stops: Sequence[str]) -> tuple[str, bool]:
    """The text before the first stop sequence, and whether there was one.

    >>> cut_at("one. two", ["."])
    ('one', True)
    """
    found = [place for place in (text.find(stop) for stop in stops) if place >= 0]
    return (text[: min(found)], True) if found else (text, False)


class StopFilter:
    """Passes text on, piece by piece, up to the first stop sequence; what may be the beginning of one is held back.

    Args:
        stops: the sequences, none of them empty.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self.stops = stops
        self.stopped = False
        """Whether a stop sequence was found."""
        self._held = ""

    def pass_on(self, piece: str) -> str:
        """The text that can be sent now."""
        if self.stopped:
            return ""
        text, self.stopped = cut_at(self._held + piece, self.stops)
        beginning = 0 if self.stopped else self._beginning(text)
        passed = text[: len(text) - beginning]
        self._held = text[len(passed) :]
        return passed

    def rest(self) -> str:
        """What was held back, at the end of the text."""
        rest, self._held = self._held, ""
        return rest

    def _beginning(self, text: str) -> int:
        """Characters at the end of the text with which a stop sequence may begin."""
        sizes = (
            size
            for stop in self.stops
            for size in range(min(len(stop) - 1, len(text)), 0, -1)
            if text.endswith(stop[:size])
        )
        return max(sizes, default=0)
