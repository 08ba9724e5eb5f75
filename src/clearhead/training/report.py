"""What a run says: live to a terminal, in plain lines elsewhere, and always to its folder.

``metrics.jsonl`` holds what follows from the recipe alone, so that a resumed run writes the very same file: rows of
``"kind": "train"`` and ``"kind": "dev"``. ``clock.jsonl`` holds how long it took; ``train.log`` what was said;
``tensorboard/`` the same curves, if asked for. Of the first two, checkpoints keep checksums.
"""

import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live

from clearhead.errors import MissingExtra
from clearhead.files import write_whole
from clearhead.training.progress_line import ProgressLine, clock_face
from clearhead.training.writing import telling

METRICS, CLOCK = "metrics.jsonl", "clock.jsonl"
Row = Mapping[str, float | str]


class Report:
    """Writes a run's files and shows its progress."""

    def __init__(self, folder: Path, *, steps: int = 0, quiet: bool = False, tensorboard: bool = False) -> None:
        self.folder, self.steps, self.quiet = folder, steps, quiet
        self._board = _Board(folder / "tensorboard") if tensorboard else None
        self._console = Console(stderr=True, highlight=False)
        self._live: Live | None = None
        self._progress = ProgressLine(0, steps)
        self.logs = True
        """Whether what is said goes to the log too: not if it stands there already."""

    def say(self, text: str) -> None:
        """A line for people: to the terminal and to the log."""
        if self.logs:
            self.log(text)
        if not self.quiet:
            self._console.print(text, markup=False, soft_wrap=True)

    def log(self, text: str) -> None:
        """A line for the log alone."""
        path = self.folder / "train.log"
        with telling(path), path.open("a", encoding="utf-8") as log:
            log.write(text + "\n")

    def start(self, step: int) -> None:
        """Show a line that follows the steps, if there is somebody to see it."""
        self._progress = ProgressLine(step, self.steps)
        if self._board is not None:
            self._board.open(step)
        if self._console.is_terminal and not self.quiet:
            # stdout is not ours: whoever redirects it wants what is printed there
            self._live = Live(
                self._progress, console=self._console, transient=True, redirect_stdout=False, redirect_stderr=False
            )
            self._live.start()

    def stop(self) -> None:
        """Take the line away."""
        if self._board is not None:
            self._board.close()
        if self._live is not None:
            self._live.stop()
            self._live = None

    def training(self, row: Mapping[str, float], *, tokens: int, seconds: float, busy: float) -> None:
        """A few steps are done: these tokens in ``busy`` seconds of training, ``seconds`` after the start of the run.

        What was spent on dev and checkpoints is in ``seconds`` alone.
        """
        step, speed = int(row["step"]), tokens / max(1e-9, busy)
        self._append(METRICS, {"kind": "train", **row})
        self._append(CLOCK, {"step": row["step"], "seconds": round(seconds, 2), "tokens_per_second": round(speed)})
        if self._board is not None:
            self._board.add("train", {**row, "tokens_per_second": speed})
        shown = self._progress
        shown.step, shown.loss, shown.speed = step, row["loss"], speed
        shown.seconds_left = (self.steps - step) * seconds / max(1, step)
        if self._live is None and not self.quiet and step % 200 == 0:
            facts = f"loss {row['loss']:.3f}  {speed:,.0f} tokens/s  rate {row['rate']:.1e}"
            left = clock_face(shown.seconds_left)
            print(f"step {step:,}/{self.steps:,}  {left} left  {facts}", file=sys.stderr, flush=True)

    def dev(self, row: Mapping[str, float], *, best: bool, seconds: float) -> None:
        """The model was scored on dev."""
        self._append(METRICS, {"kind": "dev", **row})
        if self._board is not None:
            self._board.add("dev", row)
        found = {name.removeprefix("dev_"): value for name, value in row.items() if name != "step"}
        self._progress.dev = found
        scores = "  ".join(f"{name} {value:.2f}" for name, value in found.items())
        self.say(f"step {int(row['step']):,}  {seconds / 60:.1f} min  dev: {scores}{'  (best so far)' if best else ''}")

    def checksums(self) -> dict[str, dict[str, Any]]:
        """Length and SHA-256 of the files that go on after a checkpoint, which keeps them; made to last first."""
        found = {}
        for name in (METRICS, CLOCK):
            path = self.folder / name
            if path.is_file():
                with telling(path), path.open("r+b") as stream:
                    content = stream.read()
                    os.fsync(stream.fileno())
                found[name] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        return found

    def forget_after(
        self, step: int, known: Mapping[str, Mapping[str, Any]] | None = None, dev: Sequence[Mapping[str, float]] = ()
    ) -> None:
        """Drop what was written after a checkpoint that is gone back to.

        ``known`` are the checksums that the checkpoint has. If a file does not match its own, rows that cannot be read
        are dropped, those of ``dev`` are put back, and a warning says so.
        """
        for name in (METRICS, CLOCK):
            path = self.folder / name
            expected = (known or {}).get(name)
            content = _content(path)
            if expected is not None:
                before = content[: expected["size"]]
                if len(before) == expected["size"] and hashlib.sha256(before).hexdigest() == expected["sha256"]:
                    if len(content) > len(before):
                        write_whole(path, before)
                    continue
            rows = [row for line in content.splitlines() if (row := _row(line)) is not None]
            dropped = len([line for line in content.splitlines() if line.strip()]) - len(rows)
            rows = [row for row in rows if row["step"] <= step]
            if expected is not None:
                rows = _with_dev_rows(rows, dev) if name == METRICS else rows
                self.say(
                    f"{path}: does not match its checksum; {dropped} of its rows could not be read and are left out"
                    f"{', what was measured on dev is put back' if name == METRICS else ''}; training does not depend "
                    "on it"
                )
            if content or rows:
                write_whole(path, "".join(json.dumps(row) + "\n" for row in rows).encode())

    def _append(self, name: str, row: Row) -> None:
        path = self.folder / name
        with telling(path), path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(dict(row)) + "\n")


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def _row(line: bytes) -> dict[str, Any] | None:
    """A row, or None for a line that is none: one that a kill cut off, or that was damaged."""
    try:
        row = json.loads(line)
        numbers = [value for name, value in row.items() if name != "kind"]
    except (ValueError, RecursionError, AttributeError):
        return None
    good = isinstance(row.get("step"), int) and all(isinstance(number, int | float) for number in numbers)
    return row if good and row.get("kind", "train") in ("train", "dev") else None


def _with_dev_rows(rows: Sequence[dict[str, Any]], dev: Sequence[Mapping[str, float]]) -> list[dict[str, Any]]:
    """Rows of training as far as they are there, and all of dev, in the order in which they were written."""
    kept = [{"kind": "train"} | row for row in rows if row.get("kind") != "dev" and "loss" in row]
    return sorted(
        [*kept, *({"kind": "dev", **row} for row in dev)], key=lambda row: (row["step"], row["kind"] == "dev")
    )


class _Board:
    """Curves for TensorBoard; those of steps that are done again are hidden."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise MissingExtra("training.tensorboard", "tensorboard", "tensorboard") from None
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


class SilentReport(Report):
    """For the members of a team, whose leader speaks and writes for all."""

    def say(self, text: str) -> None:
        """Nothing."""

    def log(self, text: str) -> None:
        """Nothing."""

    def start(self, step: int) -> None:
        """No line."""

    def training(self, row: Mapping[str, float], *, tokens: int, seconds: float, busy: float) -> None:
        """Nothing."""

    def dev(self, row: Mapping[str, float], *, best: bool, seconds: float) -> None:
        """Nothing."""

    def checksums(self) -> dict[str, dict[str, Any]]:
        """The files are the leader's."""
        return {}

    def forget_after(
        self, step: int, known: Mapping[str, Mapping[str, Any]] | None = None, dev: Sequence[Mapping[str, float]] = ()
    ) -> None:
        """The files are the leader's."""
