"""Where events go: a function of the caller's, a live curve in a notebook, lines on standard error, or nowhere."""

import sys
import time
from pathlib import Path
from typing import Any

from clearhead.events import Event, Listener, ignore
from clearhead.verbs.run import Run

_EVERY = 1.0
"""Seconds between two drawings of a curve."""


def listener_of(report: Listener | bool | None, folder: Path | None = None) -> Listener:
    """What takes the events of a call whose ``report`` is this."""
    if report is None or report is False:
        return ignore
    if report is not True:
        if not callable(report):
            raise TypeError(f"report is True, or a function that takes an Event, not {type(report).__name__}")
        return report
    display = _notebook_display()
    return _lines if display is None or folder is None else _LiveRun(folder, display)


def _lines(event: Event) -> None:
    if event.kind == "train" and event.step % 200 == 0:
        print(f"step {event.step:,}/{event.steps or 0:,}  loss {event.values['loss']:.3f}", file=sys.stderr)
    elif event.text:
        print(event.text, file=sys.stderr)


def _notebook_display() -> Any:
    """IPython's ``display``, if this process is the kernel of a notebook."""
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    if running is None or not hasattr(running, "kernel"):
        return None
    from IPython.display import display

    return display


class _LiveRun:
    """A run whose curve is drawn anew while it trains, in one place of the notebook."""

    def __init__(self, folder: Path, display: Any) -> None:
        self._folder, self._display = folder, display
        self._handle: Any = None
        self._drawn = 0.0

    def __call__(self, event: Event) -> None:
        due = event.kind in ("dev", "end") or (event.kind == "train" and time.monotonic() - self._drawn > _EVERY)
        if not due or not (self._folder / "recipe.toml").exists():
            return
        self._drawn = time.monotonic()
        if self._handle is None:
            self._handle = self._display(Run(self._folder), display_id=True)
        else:
            self._handle.update(Run(self._folder))
