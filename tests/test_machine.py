"""What a process may use: limits are read from the real system here, and from made-up cgroups."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from clearhead import machine
from clearhead.errors import ClearheadError, DoesNotFit


@pytest.fixture(autouse=True)
def _no_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(machine, "_affinity", lambda: 8)
    monkeypatch.setattr(machine, "_groups", lambda controller: iter(()))


@pytest.mark.parametrize(
    ("given", "threads"), [("1", 1), ("3,1", 3), (" 2 ", 2), ("64", 8), ("0", 8), ("", 8), ("x", 8)]
)
def test_omp_num_threads_is_respected(monkeypatch: pytest.MonkeyPatch, given: str, threads: int) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    assert machine.cores() == threads


@pytest.mark.parametrize("said", ["x", "0", "-1", "1.5", "", "²"])
def test_a_number_of_processes_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert machine.processes() == 1
    monkeypatch.setenv("WORLD_SIZE", said)
    with pytest.raises(ClearheadError, match=r"WORLD_SIZE is .*start with torchrun"):
        machine.processes()
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert machine.processes() == 4


@pytest.mark.parametrize(
    ("files", "threads"),
    [
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "max 100000\n"}, 8),
        ({"cpu.cfs_quota_us": "300000\n", "cpu.cfs_period_us": "100000\n"}, 3),
        ({"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"}, 8),
        ({}, 8),
    ],
)
def test_the_quota_of_a_container_is_respected(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: dict[str, str], threads: int
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="ascii")
    monkeypatch.setattr(machine, "_groups", lambda controller: iter([tmp_path] if controller == "cpu" else []))
    assert machine.cores() == threads


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no CPU affinity")
def test_affinity_is_respected() -> None:
    """By a process of its own, whose affinity is one core."""
    code = "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]); "
    code += "import clearhead.machine; print(clearhead.machine.cores())"
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "1\n"


def test_memory_of_a_container_counts_its_cache_as_free(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("1000000\n", encoding="ascii")
    (tmp_path / "memory.current").write_text("900000\n", encoding="ascii")
    (tmp_path / "memory.stat").write_text("anon 1\ninactive_file 300000\n", encoding="ascii")
    monkeypatch.setattr(machine, "_groups", lambda controller: iter([tmp_path] if controller == "memory" else []))
    assert machine.free_memory() == 400_000
    with pytest.raises(
        DoesNotFit, match=r"a thing needs about 1\.0 MiB, but only 390\.6 KiB are free: make it smaller"
    ):
        machine.require_memory(2**20, "a thing", "make it smaller")
    machine.require_memory(400_000, "a thing", "make it smaller")
