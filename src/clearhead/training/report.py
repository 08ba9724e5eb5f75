"""What a run says: live to a terminal, in plain lines elsewhere, and always to its folder.

``metrics.jsonl`` holds what follows from the recipe alone, so that a resumed run writes the very same file;
``clock.jsonl`` holds how long it took; ``train.log`` what was said; ``tensorboard/`` the same curves, if asked for.
"""

import json
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from clearhead.errors import ClearheadError


class Report:
    """Writes a run's files and shows its progress."""

    def __init__(self, folder: Path, *, steps: int = 0, quiet: bool = False, tensorboard: bool = False) -> None:
        self.folder, self.steps, self.quiet = folder, steps, quiet
        self._board = _Board(folder / "tensorboard") if tensorboard else None
        self._console = Console(stderr=True, highlight=False)
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._last = (0.0, 0)
        self._dev = ""

    def say(self, text: str) -> None:
        """A line for people: to the terminal and to the log."""
        with (self.folder / "train.log").open("a", encoding="utf-8") as log:
            log.write(text + "\n")
        if not self.quiet:
            self._console.print(text, markup=False, soft_wrap=True)

    def start(self, step: int) -> None:
        """Show a bar, if there is somebody to see it."""
        if self._board is not None:
            self._board.open(step)
        if self._console.is_terminal and not self.quiet:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[facts]}"),
                TimeRemainingColumn(),
            )
            self._bar = Progress(*columns, console=self._console, transient=True)
            self._task = self._bar.add_task(f"step 0/{self.steps}", total=self.steps, completed=step, facts="")
            self._bar.start()

    def stop(self) -> None:
        """Take the bar away."""
        if self._board is not None:
            self._board.close()
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def training(self, row: Mapping[str, float], *, tokens: int, seconds: float) -> None:
        """A few steps are done."""
        self._append("metrics.jsonl", row)
        elapsed = max(1e-9, seconds - self._last[0])
        speed = tokens / elapsed
        self._last = (seconds, int(row["step"]))
        self._append(
            "clock.jsonl", {"step": row["step"], "seconds": round(seconds, 2), "tokens_per_second": round(speed)}
        )
        if self._board is not None:
            self._board.add("train", {**row, "tokens_per_second": speed})
        facts = f"loss {row['loss']:.3f}  {speed:,.0f} tokens/s  rate {row['rate']:.1e}"
        step = int(row["step"])
        if self._bar is not None and self._task is not None:
            self._bar.update(
                self._task, completed=step, description=f"step {step:,}/{self.steps:,}", facts=f"{facts}  {self._dev}"
            )
        elif not self.quiet and step % 200 == 0:
            left = (self.steps - step) * seconds / max(1, step)
            print(f"step {step:,}/{self.steps:,}  {facts}  {left / 60:.1f} min left", file=sys.stderr, flush=True)

    def dev(self, row: Mapping[str, float], *, best: bool, seconds: float) -> None:
        """The model was scored on dev."""
        self._append("metrics.jsonl", row)
        if self._board is not None:
            self._board.add("dev", row)
        scores = "  ".join(f"{name.removeprefix('dev_')} {value:.2f}" for name, value in row.items() if name != "step")
        self._dev = f"dev: {scores}"
        self.say(f"step {int(row['step']):,}  {seconds / 60:.1f} min  dev: {scores}{'  (best so far)' if best else ''}")

    def forget_after(self, step: int) -> None:
        """Drop what was written after a checkpoint that is gone back to."""
        for name in ("metrics.jsonl", "clock.jsonl"):
            path = self.folder / name
            if path.is_file():
                kept = [line for line in path.read_text(encoding="utf-8").splitlines() if _is_before(line, step)]
                path.write_text("".join(line + "\n" for line in kept), encoding="utf-8")

    def _append(self, name: str, row: Mapping[str, float]) -> None:
        with (self.folder / name).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(dict(row)) + "\n")


class _Board:
    """Curves for TensorBoard; those of steps that are done again are hidden."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ClearheadError(
                "training.tensorboard needs the package tensorboard: pip install tensorboard"
            ) from None
        self._new = partial(SummaryWriter, str(folder))
        self._writer: SummaryWriter | None = None

    def open(self, step: int) -> None:
        """Begin, or go on after this step."""
        self._writer = self._new(purge_step=step + 1 if step else None)

    def close(self) -> None:
        """Write everything out."""
        if self._writer is not None:
            self._writer.close()

    def add(self, group: str, row: Mapping[str, float]) -> None:
        """One point of each curve."""
        if self._writer is not None:
            for name, value in row.items():
                if name != "step":
                    self._writer.add_scalar(f"{group}/{name.removeprefix('dev_')}", value, int(row["step"]))


class Silence(Report):
    """For the members of a team, whose leader speaks and writes for all."""

    def say(self, text: str) -> None:
        """Nothing."""

    def start(self, step: int) -> None:
        """No bar."""

    def training(self, row: Mapping[str, float], *, tokens: int, seconds: float) -> None:
        """Nothing."""

    def dev(self, row: Mapping[str, float], *, best: bool, seconds: float) -> None:
        """Nothing."""

    def forget_after(self, step: int) -> None:
        """The files are the leader's."""


def _is_before(line: str, step: int) -> bool:
    try:
        return bool(json.loads(line)["step"] <= step)
    except (ValueError, KeyError, TypeError):
        return False  # a line that a kill cut off
