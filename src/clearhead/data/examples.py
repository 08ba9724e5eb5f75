"""What there is to learn from: one example of each kind."""

from dataclasses import dataclass
from typing import Protocol


class Example(Protocol):
    """Anything that can be learnt from."""

    @property
    def line(self) -> int:
        """Where it stands in its file, counted from 1."""

    @property
    def key(self) -> str:
        """What decides whether it goes to train, dev or test: examples with the same key stay together."""


@dataclass(frozen=True)
class Pair:
    """A source and what it should become."""

    source: str
    target: str
    line: int

    @property
    def key(self) -> str:
        """The source, so that its alternatives stay together."""
        return self.source


@dataclass(frozen=True)
class Text:
    """A line of text."""

    text: str
    line: int

    @property
    def key(self) -> str:
        """The text, so that a line that stands there twice is not in two parts."""
        return self.text


@dataclass(frozen=True)
class Labelled:
    """A text and the class that it belongs to."""

    label: str
    text: str
    line: int

    @property
    def key(self) -> str:
        """The text, whatever its label."""
        return self.text


@dataclass(frozen=True)
class Picture(Labelled):
    """An image, as numbers between spaces, row by row, and the class that it belongs to."""

    @property
    def pixels(self) -> str:
        """The numbers."""
        return self.text
