"""What a run writes for others to read."""

import builtins
import json
from pathlib import Path
from typing import Any

import pytest

from clearhead.errors import ClearheadError
from clearhead.training import Report


def write(folder: Path, steps: range, *, after: int = 0) -> None:
    report = Report(folder, tensorboard=True)
    report.forget_after(after)
    report.start(after)
    for step in steps:
        report.training(
            {"step": step, "loss": 10.0 / step + after, "rate": 0.1}, tokens=50, seconds=float(step), busy=1.0
        )
    report.dev({"step": steps[-1], "dev_bleu": 30.0 + after}, best=True, seconds=1.0)
    report.stop()


def test_tensorboard_shows_what_metrics_hold(tmp_path: Path) -> None:
    """Reference: TensorBoard's own reader; after a resume the steps that were done again are there once, as redone."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    write(tmp_path, range(1, 8))
    write(tmp_path, range(5, 10), after=4)
    board = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert set(board.Tags()["scalars"]) == {"train/loss", "train/rate", "train/tokens_per_second", "dev/bleu"}
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    for tag, name in (("train/loss", "loss"), ("dev/bleu", "dev_bleu")):
        shown = {event.step: event.value for event in board.Scalars(tag)}
        assert shown == pytest.approx({row["step"]: row[name] for row in rows if name in row})


def test_without_the_package_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def missing(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("torch.utils.tensorboard"):
            raise ImportError(name)
        return original(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ClearheadError, match=r'pip install "clearhead\[tensorboard\]"'):
        Report(tmp_path, tensorboard=True)
