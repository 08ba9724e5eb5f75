"""Training as a process: the whole journey, a storm of kills, signals, and what goes wrong."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.forked import Forked, forked
from tests.cli.typed import typed
from tests.training.test_trainer import assert_same_run
from tests.training.toy import SMALL, write_pairs

SHORT = ["decoding.beam_size=1", "decoding.max_length=8"]
"""What has learnt nothing does not stop writing either."""
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "NO_COLOR": "1", "COLUMNS": "120"}


def clearhead(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return forked(*arguments, given=given, env=ENVIRONMENT, text=True)


def start(*arguments: str) -> subprocess.Popen[str]:
    return Forked(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)


def test_train_evaluate_and_go_on(tmp_path: Path) -> None:
    """Pairs to model to scores; the dev score of the run is the score that eval gives (contract 2)."""
    pairs, run = write_pairs(tmp_path / "pairs.tsv", count=300), str(tmp_path / "run")
    trained = clearhead("train", str(pairs), "-o", run, "--max-steps", "50", "training.evaluate_every=25", *SMALL)
    assert trained.returncode == 0, trained.stderr
    for words in ("training pairs", "padding", "parameters", "50 steps", "dev: line_error", "best dev line_error"):
        assert words in trained.stderr
    assert "line_error" in trained.stdout
    scores = json.loads(clearhead("eval", run, "--split", "dev", "--json").stdout)
    best = next(line for line in trained.stderr.splitlines() if line.startswith("best dev"))
    assert f"best dev line_error: {scores['metrics']['line_error']['value']:.2f} " in best
    assert scores["metrics"]["bleu"]["signature"].startswith("nrefs:1")
    again = clearhead("train", str(pairs), "-o", run)
    assert again.returncode == 1
    assert "has a run already; add --resume" in again.stderr
    finished = clearhead("train", str(pairs), "-o", run, "--resume")
    assert finished.returncode == 0
    assert "continuing after step 50" in finished.stderr


KILLS = int(os.environ.get("CLEARHEAD_KILLS", "0"))
"""How often a run is killed; `make prove` asks for a hundred, the tests for a few."""


@pytest.mark.parametrize(("processes", "usual"), [(1, 2), (2, 1)])
def test_a_storm_of_kills_changes_nothing(tmp_path: Path, processes: int, usual: int) -> None:
    """Contract 3: SIGKILL at random instants, and every other time in the middle of writing a checkpoint."""
    wanted = KILLS or usual
    pairs, rng = write_pairs(tmp_path / "pairs.tsv", count=200), random.Random(4)
    hard = ["training.accumulate=2", "training.evaluate_every=20", "training.save_every=1", "training.patience=999"]
    steps = 30 + 15 * wanted if wanted > 1 else 24  # enough to be killed in, and to evaluate within
    arguments = ["train", str(pairs), "--max-steps", str(steps), *hard, *SMALL, *SHORT]
    launch = start if processes == 1 else together
    finished(*arguments, "-o", str(tmp_path / "whole"), processes=processes)
    while_writing = 0
    for kills in range(wanted):
        process = launch(*arguments, "-o", str(tmp_path / "storm"), "--resume")
        if kills == 0 and wanted > 1:
            time.sleep(rng.uniform(0.0, 1.0))  # perhaps before it trains, or while it prepares
            kill_all(process)
        else:
            after, pause = rng.randint(1, 4), rng.uniform(0, 0.1) if kills % 2 else 0.0
            while_writing += kill_while_writing(process, tmp_path / "storm" / "last", after, pause)
        assert process.returncode == -signal.SIGKILL  # it had steps left to do
    errors = finished(*arguments, "-o", str(tmp_path / "storm"), "--resume", processes=processes)
    assert "continuing after step" in errors
    assert_same_run(tmp_path / "whole", tmp_path / "storm")
    found = f"{while_writing} of them while a checkpoint was written"
    print(f"{processes} process{'es' if processes > 1 else ''}: killed {wanted} times, {found}: ends bit-identical")


def finished(*arguments: str, processes: int) -> str:
    """What is said by a command that must succeed, of one process or of several that meet as torchrun's do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    group = (
        {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(processes)} if processes > 1 else {}
    )
    members: list[subprocess.Popen[str]] = [
        Forked(
            arguments,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL if rank else subprocess.PIPE,
            text=True,
            env=ENVIRONMENT | group | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(processes)
    ]
    _, errors = members[0].communicate(timeout=600)
    assert [member.wait(timeout=600) for member in members] == [0] * processes, errors
    return errors


def together(*arguments: str) -> subprocess.Popen[str]:
    """Two processes that train one model, started by torchrun."""
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "clearhead"]
    command = [sys.executable, *launch, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)


PATIENCE = 6
"""Checkpoints that may be missed before a run is killed between two of them."""


def kill_while_writing(process: subprocess.Popen[str], folder: Path, after: int, pause: float = 0.0) -> bool:
    """Kill a run while it writes a checkpoint, ``after`` or more from now, or after a pause; whether one was begun."""
    old, first = set(folder.glob(".step-*")), newest(folder)
    while process.poll() is None and newest(folder) < first + after:
        time.sleep(0.001)
    if pause:
        time.sleep(pause)
    family = family_of(process)
    while not pause and process.poll() is None and not set(folder.glob(".step-*")) - old:
        if newest(folder) > first + after + PATIENCE:
            break  # on a busy machine one may never see it write
        os.sched_yield()
    kill_all(process, family)
    return bool(set(folder.glob(".step-*")) - old)


def newest(folder: Path) -> int:
    """The step of the newest checkpoint."""
    return max((int(file.stem[5:]) for file in folder.glob("step-*.safetensors") if "-of-" not in file.stem), default=0)


def family_of(process: subprocess.Popen[str]) -> list[int]:
    """A process and all that it has started."""
    family = [process.pid]
    for pid in family:
        with suppress(OSError):
            family += [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return family


def kill_all(process: subprocess.Popen[str], family: list[int] | None = None) -> None:
    """SIGKILL for a process and its family: torchrun does not take its own with it."""
    for pid in family or family_of(process):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.communicate()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signals_save_first(tmp_path: Path, number: signal.Signals, code: int) -> None:
    pairs, run = write_pairs(tmp_path / "pairs.tsv", count=200), tmp_path / "run"
    arguments = ["train", str(pairs), "-o", str(run), "--max-steps", "100000", "training.evaluate_every=100000", *SMALL]
    process = start(*arguments)
    deadline = time.monotonic() + 600  # the machine may be busy
    while not (run / "metrics.jsonl").is_file():
        assert process.poll() is None
        if time.monotonic() > deadline:
            kill_all(process)
            pytest.fail("it does not begin to train")
        time.sleep(0.01)
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == code
    assert "all saved: continue with --resume" in errors
    assert "Traceback" not in errors
    assert len(list((run / "last").glob("*.safetensors"))) == 1


def test_a_pipe_teaches_what_the_file_teaches_and_is_kept(tmp_path: Path) -> None:
    """The same weights; what is piped into a run that has begun changes nothing, and --resume needs no pipe."""
    pairs = write_pairs(tmp_path / "pairs.tsv", count=200)
    short = ["--max-steps", "6", *SMALL, *SHORT]
    for name, source, given in (("file", str(pairs), ""), ("pipe", "-", pairs.read_text())):
        result = clearhead("train", "--train", source, "-o", str(tmp_path / name), *short, given=given)
        assert result.returncode == 0, result.stderr
    assert_same_run(tmp_path / "file", tmp_path / "pipe")
    kept = tmp_path / "pipe" / "data" / "stdin.tsv"
    assert kept.read_text() == pairs.read_text()
    again = clearhead("train", "-", "-o", str(tmp_path / "pipe"), "--resume", given="other\tdata\n")
    assert "continuing after step 6" in again.stderr
    assert kept.read_text() == pairs.read_text()


@pytest.mark.parametrize(
    ("given", "kept", "message"),
    [("", None, "standard input: is empty"), ('{"sorce": "a"}\n', "jsonl", "line 1"), ("a\tb\tc\n", "tsv", "line 1")],
)
def test_what_a_pipe_brings_is_known_by_its_first_line(
    given: str, kept: str | None, message: str, tmp_path: Path
) -> None:
    result = clearhead("train", "-", "-o", str(tmp_path / "run"), given=given)
    assert result.returncode == 3
    assert message in result.stderr
    assert (tmp_path / "run").exists() == (kept is not None)
    assert kept is None or (tmp_path / "run" / "data" / f"stdin.{kept}").read_text() == given


def test_several_processes_do_not_share_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As torchrun would start it: every process would read a part, and none the whole."""
    monkeypatch.setitem(ENVIRONMENT, "WORLD_SIZE", "2")
    result = clearhead("train", "-", "-o", str(tmp_path / "run"), given="a\tb\n")
    assert result.returncode == 2
    assert "give a file" in result.stderr
    assert not (tmp_path / "run").exists()


def test_check_says_what_is_wrong(tmp_path: Path) -> None:
    pairs = write_pairs(tmp_path / "pairs.tsv")
    good = typed("check", str(pairs))
    assert good.returncode == 0, good.stderr
    assert "characters" in good.stdout
    assert "nothing is wrong" in good.stdout
    pairs.write_text(pairs.read_text() + "no tab here\n")
    bad = typed("check", str(pairs), "--json")
    assert bad.returncode == 3
    report = json.loads(bad.stdout)
    assert not report["healthy"]
    assert report["findings"][0]["examples"][0].endswith("1 columns between tabs instead of 2")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["train"], 3, "nothing to train on"),
        (["train", "nowhere.tsv"], 2, "no such recipe, file or task"),
        (["train", "g2p-eng"], 2, "did you mean g2p-en?"),
        (["train", "g2p-en", "README.md"], 2, "one file or task is enough"),
        (["train", "tiny", "small", "g2p-en"], 2, "one recipe is enough"),
        (["train", "--src", "a.en"], 2, "parallel files come in twos"),
        (["train", "g2p-en", "--minutes", "1", "--epochs", "1"], 2, "one budget is enough"),
        (["eval", "nowhere"], 2, "name what to score on"),
        (["eval", "nowhere", "one.tsv", "two.tsv"], 2, "name what to score on"),
        (["score", "nowhere", "one.tsv", "--src", "one", "--tgt", "two"], 2, "name what to score"),
        (["score", "nowhere", "one.tsv", "--src", "one"], 2, "come in twos"),
        (["eval", "nowhere", "one.tsv", "--tgt", "one"], 2, "come in twos"),
        (["eval", "nowhere", "one.tsv", "--split", "dev"], 2, "name what to score on"),
        (["eval", "nowhere", "--split", "dev"], 2, "nowhere is no run folder"),
        (["train", "g2p-en", "--train", "x.tsv"], 2, "DATA and --train: training data is named twice"),
        (["eval", "nowhere", "nowhere.tsv"], 3, "cannot be read"),
        (["check", "bad.tsv"], 2, "no such recipe, file or task"),
    ],
)
def test_what_goes_wrong_is_one_message(arguments: list[str], code: int, message: str, tmp_path: Path) -> None:
    result = typed(*arguments, *(["-o", str(tmp_path / "run")] if arguments[0] == "train" else []))
    assert result.returncode == code, result.stderr
    assert message in result.stderr


def test_a_broken_file_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_bytes(b"a\tb\n\xff\tc\n")
    result = typed("train", str(pairs), "-o", str(tmp_path / "run"))
    assert result.returncode == 3
    assert "line 2: is not UTF-8" in result.stderr
    assert not (tmp_path / "run").exists()
