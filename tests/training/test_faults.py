"""A disk that is full at any write of a run: one line, exit 1, nothing lost, and --resume ends bit-identical."""

import errno
import os
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.typed import typed
from tests.training.test_trainer import assert_same_run
from tests.training.toy import FEW, SMALL, write_pairs

FAULTS = int(os.environ.get("CLEARHEAD_FAULTS", "2"))
"""Instants at which each operation fails; `make prove` asks for all."""
WORDS = ["--max-steps", "6", "training.evaluate_every=3", "training.save_every=1", *SMALL]


class Disk:
    """Counts one operation of the system, and lets one of them fail."""

    def __init__(self, patch: pytest.MonkeyPatch, operation: str, fails: int | None = None) -> None:
        self.done, self.fails = 0, fails
        patch.setattr(os, "_exit", sys.exit)  # the command line leaves so, which would end the tests
        if operation == "write":
            real_open = os.fdopen
            patch.setattr(os, "fdopen", lambda *given: Stream(real_open(*given), self))
        elif operation == "fsync":
            patch.setattr(os, "fsync", self._checked(os.fsync))
        else:
            patch.setattr(Path, "replace", self._checked(Path.replace))

    def count(self) -> None:
        self.done += 1
        if self.fails is not None and self.done >= self.fails:  # and it stays full
            raise OSError(errno.ENOSPC, "No space left on device")

    def _checked(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*given: Any) -> Any:
            self.count()
            return real(*given)

        return operation


class Stream:
    """A file whose writes are counted; of one that fails a half is written."""

    def __init__(self, real: Any, disk: Disk) -> None:
        self._real, self._disk = real, disk

    def write(self, content: bytes) -> int:
        try:
            self._disk.count()
        except OSError:
            self._real.write(content[: len(content) // 2])
            raise
        return int(self._real.write(content))

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *given: Any) -> None:
        self._real.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


OPERATIONS = ("write", "fsync", "rename")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    """The folder of a run that nothing disturbed, and how often it asked the system for each operation."""
    folder = tmp_path_factory.mktemp("faults")
    pairs = write_pairs(folder / "pairs.tsv", count=FEW)
    with pytest.MonkeyPatch.context() as patch:
        disks = {operation: Disk(patch, operation) for operation in OPERATIONS}
        assert typed("train", str(pairs), "-o", str(folder / "whole"), *WORDS).returncode == 0
    return folder, {operation: disk.done for operation, disk in disks.items()}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_full_disk_loses_nothing_whenever_it_comes(
    whole: tuple[Path, dict[str, int]], operation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, done = whole
    command = ["train", str(folder / "pairs.tsv"), "-o", str(tmp_path / "run"), *WORDS]
    assert done[operation] >= 10  # tokenizers, run.json, recipe.toml, seven checkpoints, best, scores
    instants = list(range(1, done[operation] + 1))
    failed = 0
    for instant in instants if len(instants) <= FAULTS else random.Random(1).sample(instants, FAULTS):
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        with monkeypatch.context() as patch:
            Disk(patch, operation, fails=instant)
            result = typed(*command)
        if result.returncode:  # a folder that cannot be synced is not an error
            failed += 1
            assert result.returncode == 1, result.stderr
            last = result.stderr.splitlines()[-1]
            assert "No space left on device" in last
            assert "Traceback" not in result.stderr
            assert not list(tmp_path.glob("run/**/.step-*"))
        started = (tmp_path / "run").exists()
        result = typed(*command, *(["--resume"] if started else []))
        assert result.returncode == 0, result.stderr
        assert_same_run(folder / "whole", tmp_path / "run")
        assert (tmp_path / "run" / "scores.json").is_file()
    assert failed
    print(f"{operation}: the disk was full at {failed} instants: every run ends bit-identical")
