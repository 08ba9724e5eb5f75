"""Processes that die: the others end, torchrun starts all again from the last checkpoint, and nothing is lost."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.forked import Forked
from tests.cli.test_train import ENVIRONMENT, SHORT, family_of, finished, kill_all, newest
from tests.training.test_trainer import assert_same_run
from tests.training.toy import SMALL, write_pairs

OFTEN = ["training.evaluate_every=20", "training.save_every=1", "training.patience=999"]
LOOPBACK = ENVIRONMENT | {"GLOO_SOCKET_IFNAME": "lo", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
"""The latter for nodes that come back: torchrun does not tell them where the others meet (pytorch issue 135712)."""


def arguments(folder: Path, steps: int, *more: str) -> list[str]:
    pairs = write_pairs(folder / "pairs.tsv", count=200)
    return ["train", str(pairs), "--max-steps", str(steps), *OFTEN, *SMALL, *SHORT, *more]


def until_step(run: Path, step: int, *processes: subprocess.Popen[str]) -> None:
    """Wait for a checkpoint."""
    deadline = time.monotonic() + 600  # the machine may be busy
    while newest(run / "last") < step:
        if time.monotonic() > deadline or any(process.poll() is not None for process in processes):
            for process in processes:
                kill_all(process)
            pytest.fail("it does not train")
        time.sleep(0.005)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@pytest.mark.parametrize("kind", [pytest.param("ddp", marks=pytest.mark.prove), "fsdp"])
def test_a_process_that_is_killed_ends_the_others_and_nothing_is_lost(tmp_path: Path, kind: str) -> None:
    """What torchrun builds on, without it: the survivor ends by itself and says so; started again, all go on."""
    words = arguments(tmp_path, 12, f"training.parallel={kind}", "training.evaluate_every=8")
    finished(*words, "-o", str(tmp_path / "whole"), processes=2)
    run = tmp_path / "run"
    together = LOOPBACK | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    leader, other = (
        Forked(
            [*words, "-o", str(run)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=together | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(2)
    )
    until_step(run, 3, leader, other)
    kill_all(other)
    _, errors = leader.communicate(timeout=600)
    assert leader.returncode == 1
    assert "another process failed" in errors
    assert "Traceback" not in errors
    finished(*words, "-o", str(run), "--resume", processes=2)
    assert_same_run(tmp_path / "whole", run)


def torchrun(options: list[str], words: list[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "torch.distributed.run", *options, "-m", "clearhead", *words]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=LOOPBACK)


def worker(agent: subprocess.Popen[str], rank: int) -> int:
    """The process of this rank that an agent of torchrun has started."""
    for pid in family_of(agent)[1:]:
        with suppress(OSError):
            if f"\0RANK={rank}\0".encode() in Path(f"/proc/{pid}/environ").read_bytes():
                return pid
    raise AssertionError(f"no process of rank {rank}")


@pytest.mark.prove
@pytest.mark.parametrize(("kind", "rank"), [("ddp", 1), ("fsdp", 0)])
def test_torchrun_restarts_a_group_from_its_last_checkpoint(tmp_path: Path, kind: str, rank: int) -> None:
    words = arguments(tmp_path, 60, f"training.parallel={kind}")
    finished(*words, "-o", str(tmp_path / "whole"), processes=2)
    run = tmp_path / "run"
    process = torchrun(
        ["--standalone", "--nproc-per-node", "2", "--max-restarts", "2"], [*words, "-o", str(run), "--resume"]
    )
    until_step(run, 3, process)
    os.kill(worker(process, rank), signal.SIGKILL)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    assert "continuing after step" in errors
    assert_same_run(tmp_path / "whole", run)


@pytest.mark.prove
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_one_of_two_nodes_is_killed_and_started_again(tmp_path: Path, kind: str) -> None:
    """Two agents meet on loopback; the one that keeps the meeting place waits for the other to come back."""
    words = arguments(tmp_path, 24, f"training.parallel={kind}")
    finished(*words, "-o", str(tmp_path / "whole"), processes=2)
    run = tmp_path / "run"
    first, second = two_nodes(3, [[*words, "-o", str(run), "--resume"]] * 2)
    until_step(run, 3, first, second)
    kill_all(second)
    again = node(first_port(first), 3, [*words, "-o", str(run), "--resume"])
    _, errors = first.communicate(timeout=600)
    _, other = again.communicate(timeout=600)
    assert (first.returncode, again.returncode) == (0, 0), errors + other
    assert "continuing after step" in errors + other
    assert_same_run(tmp_path / "whole", run)


@pytest.mark.prove
def test_nodes_without_a_common_folder_are_told_so(tmp_path: Path) -> None:
    words = arguments(tmp_path, 60)
    first, second = two_nodes(0, [[*words, "-o", str(tmp_path / f"of {number}")] for number in range(2)])
    told = "".join(process.communicate(timeout=600)[1] for process in (first, second))
    assert first.returncode != 0
    assert second.returncode != 0
    assert "process 1 does not see the run there that process 0 sees: all nodes need one folder" in told


def test_what_may_be_restarted_must_be_able_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.cli.typed import typed

    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "3")
    result = typed("train", str(write_pairs(tmp_path / "pairs.tsv")), "-o", str(tmp_path / "run"))
    assert result.returncode == 1
    assert "(--max-restarts): add --resume" in result.stderr
    assert not (tmp_path / "run").exists()


def node(port: int, restarts: int, words: list[str]) -> subprocess.Popen[str]:
    """An agent with one process, as it would run on a machine of its own."""
    meeting = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "test"]
    options = ["--nnodes", "2", "--nproc-per-node", "1", "--max-restarts", str(restarts), "--local-addr", "127.0.0.1"]
    return torchrun([*options, *meeting], words)


def two_nodes(restarts: int, words: list[list[str]]) -> tuple[subprocess.Popen[str], subprocess.Popen[str]]:
    """Two agents; the first one keeps the meeting place."""
    port = free_port()
    first = node(port, restarts, words[0])
    while first.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            break
        time.sleep(0.05)
    return first, node(port, restarts, words[1])


def first_port(agent: subprocess.Popen[str]) -> int:
    """The port of an agent's meeting place."""
    assert isinstance(agent.args, list)
    endpoint = str(agent.args[agent.args.index("--rdzv-endpoint") + 1])
    return int(endpoint.rpartition(":")[2])
