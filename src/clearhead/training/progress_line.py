"""The line that shows how far a run is: the most important first, and nothing cut in the middle."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

_GAP = "  "


@dataclass
class ProgressLine:
    """What the line shows."""

    step: int
    steps: int
    seconds_left: float | None = None
    """None while nobody knows."""
    loss: float | None = None
    speed: float | None = None
    """Tokens a second."""
    dev: Mapping[str, float] = field(default_factory=dict)
    """The newest scores, by name."""

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(self.line(options.max_width), no_wrap=True, overflow="ignore", end="")

    def line(self, width: int) -> str:
        """Step, share and time left, then the rest, as far as they fit into ``width`` columns."""
        share = f"{100 * self.step // max(1, self.steps)} %"
        steps = f"{self.step:,}/{self.steps:,}"
        left = [] if self.seconds_left is None else [f"{clock_face(self.seconds_left)} left"]
        first = next((text for text in (f"step {steps}", steps, share) if len(text) <= width), "")
        parts = [first, *([] if first == share else [share]), *left, *self._facts()]
        return _GAP.join(_fitting([part for part in parts if part], width))

    def _facts(self) -> Sequence[str]:
        facts = [] if self.loss is None else [f"loss {self.loss:.3f}"]
        facts += [] if self.speed is None else [f"{self.speed:,.0f} tokens/s"]
        scores = [f"{name} {value:.2f}" for name, value in self.dev.items()]
        return [*facts, *([f"dev: {scores[0]}", *scores[1:]] if scores else [])]


def _fitting(parts: Sequence[str], width: int) -> list[str]:
    """The first parts, as many as fit."""
    kept: list[str] = []
    for part in parts:
        if len(_GAP.join([*kept, part])) > width:
            break
        kept.append(part)
    return kept


def clock_face(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> clock_face(65), clock_face(3723)
    ('1:05', '1:02:03')
    """
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
