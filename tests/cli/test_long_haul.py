"""``clearhead run`` under strain: many lines, one long line, workers that are killed, an impatient user."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tools.long_haul import flat_memory

from tests.cli.forked import Forked
from tests.cli.test_run import clearhead, lines_of
from tests.cli.test_train import ENVIRONMENT
from tests.training.toy import LONG_WINDED, write_pairs


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("haul")
    pairs = write_pairs(folder / "pairs.tsv", count=200)
    result = clearhead("train", str(pairs), "-o", str(folder / "run"), "--max-steps", "5", *LONG_WINDED)
    assert result.returncode == 0, result.stderr.decode()
    return str(folder / "run")


def test_memory_is_flat(run: str) -> None:
    """A twentieth of what `make prove` does."""
    print(flat_memory(run, 10_000))


def test_one_line_of_5000_tokens(run: str, tmp_path: Path) -> None:
    """Cut with a warning, or read whole where the recipe allows it; scored in the same way."""
    line = b"abcdefg" * 715
    result = clearhead("run", run, "decoding.max_length=3", given=line)
    assert len(lines_of(result)) == 1
    assert "standard input, line 1: is longer than decoding.max_source allows" in result.stderr.decode()
    result = clearhead("run", run, "decoding.max_length=3", "decoding.max_source=6000", given=line)
    assert len(lines_of(result)) == 1
    assert result.stderr == b""
    pairs = tmp_path / "long.tsv"
    pairs.write_bytes(b"abc\tA\n" + line + b"\tA B\nabc\t" + b"A B " * 2500 + b"\n")
    result = clearhead("score", run, str(pairs))
    assert len(lines_of(result)) == 3
    assert result.stderr.decode().count("\n") == 1
    assert "long.tsv, line 2: is longer than decoding.max_source allows" in result.stderr.decode()


def workers_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def runs(pid: int) -> bool:
    """Whether a process is there, and not only waits for somebody to take note of its end."""
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] not in "ZX"


def busy(run: str) -> subprocess.Popen[bytes]:
    """A command with two workers that have a lot to do."""
    words = ["run", run, "--threads", "2", "--beam-size", "8", "decoding.min_length=200"]
    pipe = subprocess.PIPE
    process: subprocess.Popen[bytes] = Forked(
        words, stdin=pipe, stdout=pipe, stderr=pipe, env=ENVIRONMENT, start_new_session=True
    )
    assert process.stdin is not None
    process.stdin.write(b"abcdefg\n" * 2000)
    process.stdin.close()
    process.stdin = None
    deadline = time.monotonic() + 60
    while len(workers_of(process.pid)) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    return process


def test_a_worker_that_is_killed_is_one_message(run: str) -> None:
    process = busy(run)
    os.kill(workers_of(process.pid)[0], signal.SIGKILL)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 1
    assert said.decode().startswith("a worker process was killed, perhaps because there was not enough memory")
    assert said.count(b"\n") == 1


def test_an_interrupt_ends_it_at_once(run: str) -> None:
    """Ctrl-C reaches all processes of the command; none says anything, none is left behind."""
    process = busy(run)
    workers, deadline = workers_of(process.pid), time.monotonic() + 60
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert (process.returncode, said) == (130, b"")
    while any(map(runs, workers)):  # they were killed, and are on their way
        assert time.monotonic() < deadline
        time.sleep(0.05)
