"""Progress on standard error: of training a line that follows the steps, of answers a bar; elsewhere plain lines.

Standard output is never touched: whoever redirects it wants the results that are printed there.
"""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from clearhead import Event

WARNINGS = 10
"""Warnings of a category that are shown; the others are counted."""
LINES_EVERY = 200
"""Steps between two lines about training, where there is no terminal."""
_GAP = "  "


class TerminalReport:
    """Takes the events of long work, and shows them on standard error.

    Args:
        bar: Whether a bar of lines is shown on a terminal. Not if the answers are printed to the same screen.
    """

    def __init__(self, *, bar: bool = False) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._shows = self._console.is_terminal
        self._wants_bar = bar
        self._live: Live | None = None
        self._line = ProgressLine(0, 0)
        self._bar: Progress | None = None
        self._warned = Counter[str]()

    def __enter__(self) -> "TerminalReport":
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def __call__(self, event: Event) -> None:
        """Show an event."""
        if event.kind == "warning":
            self._warn(event)
            return
        if event.kind == "prepare":
            self._prepare(event)
        elif event.kind == "start":
            self._end()
            self._start(event)
        elif event.kind == "train":
            self._train(event)
        elif event.kind == "lines" and self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=event.step)
        elif event.kind == "dev":
            self._line.dev = event.values
        elif event.kind == "end":
            self._end()
        if event.text:
            self._say(event.text)

    def _prepare(self, event: Event) -> None:
        """A bar for each stage of the preparation; short ones come and go."""
        if not self._shows:
            return
        if self._bar is None:
            columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=self._console, transient=True, redirect_stdout=False)
            self._bar.start()
        task = next((task for task in self._bar.tasks if task.description == event.category), None)
        number = self._bar.add_task(event.category) if task is None else task.id
        self._bar.update(number, total=event.steps, completed=event.step)

    def _start(self, event: Event) -> None:
        if not self._shows:
            return
        if self._wants_bar:
            columns = (TextColumn("lines"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            # left to itself, the display catches what is printed to standard output and sends it to its console
            self._bar = Progress(*columns, console=self._console, redirect_stdout=False)
            self._bar.add_task("lines", total=event.steps, completed=event.step)
            self._bar.start()
        elif event.category == "training":
            self._line = ProgressLine(event.step, event.steps or 0)
            self._live = Live(
                self._line, console=self._console, transient=True, redirect_stdout=False, redirect_stderr=False
            )
            self._live.start()

    def _train(self, event: Event) -> None:
        shown, values = self._line, event.values
        shown.step, shown.steps, shown.seconds_left = event.step, event.steps or 0, event.seconds_left
        shown.loss, shown.speed = values["loss"], values["tokens_per_second"]
        if self._live is None and event.step % LINES_EVERY == 0:
            facts = f"loss {shown.loss:.3f}  {shown.speed:,.0f} tokens/s  rate {values['rate']:.1e}"
            left = clock_face(event.seconds_left or 0.0)
            print(f"step {event.step:,}/{shown.steps:,}  {left} left  {facts}", file=sys.stderr, flush=True)

    def _end(self) -> None:
        for display in (self._live, self._bar):
            if display is not None:
                display.stop()
        self._live = self._bar = None
        for category, count in self._warned.items():
            if count > WARNINGS:
                self._say(f"… and {count - WARNINGS:,} more warnings of this kind")
                self._warned[category] = 0

    def _warn(self, event: Event) -> None:
        self._warned[event.category] += 1
        if self._warned[event.category] <= WARNINGS:
            self._say(event.text)

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)


@dataclass
class ProgressLine:
    """What the line shows."""

    step: int
    steps: int
    seconds_left: float | None = None
    """None while it is unknown."""
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
