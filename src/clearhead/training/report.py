"""Writes the progress of a run to its folder, and passes it on to a listener.

- ``metrics.jsonl``: rows of ``"kind": "train"`` and ``"kind": "dev"``. They depend on the recipe alone, so that a
  resumed run writes the same file, byte for byte.
- ``clock.jsonl``: how long it took; and, for a budget in minutes, how the run was corrected (``steps``).
- ``train.log``: the messages.
- ``tensorboard/``: the same curves, if ``training.tensorboard`` is set.

Checkpoints store checksums of the first two.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from clearhead.errors import MissingExtra
from clearhead.events import Event, Listener, ignore
from clearhead.files import write_whole
from clearhead.training.writing import clear_write_errors

METRICS, CLOCK = "metrics.jsonl", "clock.jsonl"
Row = Mapping[str, float | str]


class Report:
    """Writes a run's files, and passes events on to a listener.

    Args:
        folder: The run folder.
        steps: Steps of the whole run.
        listener: Takes every event; without it nothing is shown.
        tensorboard: Whether curves for TensorBoard are written too.
        budget: Seconds that the whole run may take, if its budget is in minutes.
    """

    def __init__(
        self,
        folder: Path,
        *,
        steps: int = 0,
        listener: Listener | None = None,
        tensorboard: bool = False,
        budget: float | None = None,
    ) -> None:
        self.folder, self.steps, self.budget = folder, steps, budget
        self._emit: Listener = listener or ignore
        self._board = _Board(folder / "tensorboard") if tensorboard else None
        self.logs = True
        """Whether messages are also written to ``train.log``; False while repeating what the log already has."""

    def say(self, text: str) -> None:
        """Write a message to the listener and to the log."""
        if self.logs:
            self.log(text)
        self._emit(Event("note", text))

    def log(self, text: str) -> None:
        """Write a message to the log only."""
        path = self.folder / "train.log"
        with clear_write_errors(path), path.open("a", encoding="utf-8") as log:
            log.write(text + "\n")

    def start(self, step: int) -> None:
        """Report that the steps begin, or continue after this one."""
        if self._board is not None:
            self._board.open(step)
        self._emit(Event("start", step=step, steps=self.steps, category="training"))

    def stop(self) -> None:
        """Report that the steps have ended."""
        if self._board is not None:
            self._board.close()
        self._emit(Event("end", steps=self.steps))

    def training(self, row: Mapping[str, float], *, tokens: int, seconds: float, busy: float) -> None:
        """Report a few training steps.

        Time spent on evaluations and checkpoints is in ``seconds`` alone.
        """
        step, speed = int(row["step"]), tokens / max(1e-9, busy)
        self._append(METRICS, {"kind": "train", **row})
        self._append(CLOCK, {"step": step, "seconds": round(seconds, 2), "tokens_per_second": round(speed)})
        values = {**row, "tokens_per_second": speed}
        if self._board is not None:
            self._board.add("train", values)
        left = (self.steps - step) * seconds / max(1, step)
        if self.budget is not None:
            left = max(0.0, self.budget - seconds)
        self._emit(Event("train", step=step, steps=self.steps, values=values, seconds=seconds, seconds_left=left))

    def replan(self, step: int, steps: int, evaluate_every: int, *, seconds: float) -> None:
        """Report that the run is to have another number of steps, so that it ends in time."""
        self.steps = steps
        row = {"step": step, "seconds": round(seconds, 2), "steps": steps, "evaluate_every": evaluate_every}
        self._append(CLOCK, row)

    def dev(self, row: Mapping[str, float], *, best: bool, seconds: float) -> None:
        """Report the scores of an evaluation on dev."""
        self._append(METRICS, {"kind": "dev", **row})
        if self._board is not None:
            self._board.add("dev", row)
        step = int(row["step"])
        found = {name.removeprefix("dev_"): value for name, value in row.items() if name != "step"}
        scores = "  ".join(f"{name} {value:.2f}" for name, value in found.items())
        text = f"step {step:,}  {seconds / 60:.1f} min  dev: {scores}{'  (best so far)' if best else ''}"
        if self.logs:
            self.log(text)
        self._emit(Event("dev", text, step=step, steps=self.steps, values=found, best=best, seconds=seconds))

    def checksums(self) -> dict[str, dict[str, Any]]:
        """Flush the files that grow after a checkpoint, and return their sizes and SHA-256 for it to store."""
        found = {}
        for name in (METRICS, CLOCK):
            path = self.folder / name
            if path.is_file():
                with clear_write_errors(path), path.open("r+b") as stream:
                    content = stream.read()
                    os.fsync(stream.fileno())
                found[name] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        return found

    def forget_after(
        self, step: int, known: Mapping[str, Mapping[str, Any]] | None = None, dev: Sequence[Mapping[str, float]] = ()
    ) -> None:
        """Remove rows that were written after the checkpoint from which the run continues.

        ``known`` holds the checkpoint's checksums. If a file does not match its checksum, unreadable rows are dropped,
        the rows in ``dev`` are restored, and a warning is reported.
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
                    f"{path}: does not match its checksum; {dropped} unreadable rows were removed"
                    f"{', the scores on dev were restored' if name == METRICS else ''}; training does not depend "
                    "on it"
                )
            if content or rows:
                write_whole(path, "".join(json.dumps(row) + "\n" for row in rows).encode())

    def _append(self, name: str, row: Row) -> None:
        path = self.folder / name
        with clear_write_errors(path), path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(dict(row)) + "\n")


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def _row(line: bytes) -> dict[str, Any] | None:
    """Parse a row; None if the line is damaged, for example cut off by a kill."""
    try:
        row = json.loads(line)
        numbers = [value for name, value in row.items() if name != "kind"]
    except (ValueError, RecursionError, AttributeError):
        return None
    good = isinstance(row.get("step"), int) and all(isinstance(number, int | float) for number in numbers)
    return row if good and row.get("kind", "train") in ("train", "dev") else None


def _with_dev_rows(rows: Sequence[dict[str, Any]], dev: Sequence[Mapping[str, float]]) -> list[dict[str, Any]]:
    """The readable training rows and all rows of dev, in the order in which they were written."""
    kept = [{"kind": "train"} | row for row in rows if row.get("kind") != "dev" and "loss" in row]
    return sorted(
        [*kept, *({"kind": "dev", **row} for row in dev)], key=lambda row: (row["step"], row["kind"] == "dev")
    )


class _Board:
    """Curves for TensorBoard; points of steps that are repeated after a resume are hidden."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise MissingExtra("training.tensorboard", "tensorboard", "tensorboard") from None
        self._new = partial(SummaryWriter, str(folder))
        self._writer: SummaryWriter | None = None

    def open(self, step: int) -> None:
        """Begin, or continue after this step."""
        self._writer = self._new(purge_step=step + 1 if step else None)

    def close(self) -> None:
        """Flush and close."""
        if self._writer is not None:
            self._writer.close()

    def add(self, group: str, row: Mapping[str, float]) -> None:
        """Add one point to each curve."""
        if self._writer is not None:
            for name, value in row.items():
                if name != "step":
                    self._writer.add_scalar(f"{group}/{name.removeprefix('dev_')}", value, int(row["step"]))


class SilentReport(Report):
    """For the processes of a group that do not lead: the leader writes and speaks for all."""

    def log(self, text: str) -> None:
        """Nothing: the files are the leader's."""

    def training(self, row: Mapping[str, float], *, tokens: int, seconds: float, busy: float) -> None: ...

    def replan(self, step: int, steps: int, evaluate_every: int, *, seconds: float) -> None:
        del step, evaluate_every, seconds
        self.steps = steps

    def dev(self, row: Mapping[str, float], *, best: bool, seconds: float) -> None: ...

    def checksums(self) -> dict[str, dict[str, Any]]:
        return {}

    def forget_after(
        self, step: int, known: Mapping[str, Mapping[str, Any]] | None = None, dev: Sequence[Mapping[str, float]] = ()
    ) -> None: ...
