"""``clearhead run -o FILE``: killed in the middle and resumed, the file is the same byte for byte."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from clearhead import predictor
from tests.cli.forked import Forked
from tests.cli.test_run import clearhead, lines_of
from tests.cli.test_train import ENVIRONMENT
from tests.training.toy import SMALL, write_pairs

COUNT, WINDOW, CHUNK = 2000, 400, 50
"""Lines, and how many are sorted together and make a job: five windows, as 20,000 lines are with the usual size."""
PATIENCE = 600.0
"""Seconds after which a test gives up: the machine may be busy."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, and with lines for several windows."""
    folder = tmp_path_factory.mktemp("output")
    pairs = write_pairs(folder / "pairs.tsv")
    trained = clearhead("train", str(pairs), "-o", str(folder / "run"), "--max-steps", "5", *SMALL)
    assert trained.returncode == 0, trained.stderr.decode()
    words = [line.partition("\t")[0] for line in pairs.read_text().splitlines()]
    (folder / "lines.txt").write_text(
        "".join(f"{words[n % len(words)]}{words[n * 7 % len(words)]}\n" for n in range(COUNT))
    )
    return folder


@pytest.fixture(autouse=True)
def _small_windows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands are forked from this process and so take these sizes; every answer is recorded at once."""
    if request.node.get_closest_marker("prove") is not None:  # it takes the usual ones
        return
    for module in (predictor.lines, predictor.journal):
        monkeypatch.setattr(module, "WINDOW", WINDOW)
    monkeypatch.setattr(predictor.lines, "CHUNK", CHUNK)
    monkeypatch.setattr(predictor.journal, "_EVERY", 0.0)


def wait_until_some_are_safe(process: subprocess.Popen[bytes], answers: Path, least: int = 0) -> None:
    """Until the journal knows of answers, and the partial file has more than ``least`` lines."""
    journal, partial = (answers.with_name(f"{answers.name}.{end}") for end in ("journal", "partial"))
    deadline = time.monotonic() + PATIENCE
    while not (journal.exists() and journal.read_bytes().count(b"\n") > 1 and _lines_in(partial) > least):
        assert process.poll() is None, "it was done before it could be stopped"
        if time.monotonic() > deadline:
            os.killpg(process.pid, signal.SIGKILL)
            pytest.fail("no answer was safe in all this time")
        time.sleep(0.005)


def _lines_in(file: Path) -> int:
    return file.read_bytes().count(b"\n") if file.exists() else 0


def killed(words: list[str], answers: Path, given: int | None = None, least: int = 0) -> None:
    """SIGKILL once some answers are safe."""
    process = Forked(words, env=ENVIRONMENT, stdin=given, start_new_session=True)
    wait_until_some_are_safe(process, answers, least)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=120)


@pytest.mark.parametrize("pipe", [False, True], ids=["file", "pipe"])
def test_killed_and_resumed(place: Path, tmp_path: Path, pipe: bool) -> None:
    """With sampling, whose answers follow from the number of a line: the numbers go on too."""
    lines, answers, partial = place / "lines.txt", tmp_path / "answers.txt", tmp_path / "answers.txt.partial"
    words = ["run", str(place / "run"), *([] if pipe else [str(lines)]), "-o", str(answers), "--threads", "2"]
    words += (
        ["--n-best", "2", "--beam-size", "2", "decoding.max_length=5"]
        if pipe
        else ["decoding.sample=true", "decoding.max_length=8", "--scores"]
    )
    given = lines.read_bytes() if pipe else b""
    with lines.open("rb") as stream:
        killed(words, answers, stream.fileno() if pipe else None)
    assert not answers.exists()
    assert partial.stat().st_size > 0
    refused = clearhead(*words, given=given)
    assert refused.returncode == 1
    assert "add --resume to continue it, or --force to start again" in refused.stderr.decode()
    other = clearhead(*words, "--resume", "decoding.length_penalty=0.5", given=given)
    assert other.returncode == 1
    assert "decoding.length_penalty was 0.6, and is now 0.5" in other.stderr.decode()
    assert lines_of(clearhead(*words, "--resume", given=given)) == []
    assert not partial.exists()
    outright = [*words[: words.index("-o")], *words[words.index("-o") + 2 :]]
    assert answers.read_bytes() == clearhead(*outright, given=given).stdout


@pytest.mark.prove
def test_killed_and_resumed_across_real_windows(place: Path, tmp_path: Path) -> None:
    """20,000 lines in windows of 4,096: killed in the second, and again in the third or later."""
    usual = (place / "lines.txt").read_text()
    assert predictor.lines.WINDOW == 4096
    many, answers = tmp_path / "many.txt", tmp_path / "answers.txt"
    many.write_text(usual * 10)
    words = ["run", str(place / "run"), str(many), "--threads", "2", "decoding.sample=true", "decoding.max_length=8"]
    kept = [*words, "-o", str(answers)]
    killed(kept, answers, least=4096)
    killed([*kept, "--resume"], answers, least=2 * 4096)
    assert lines_of(clearhead(*kept, "--resume")) == []
    assert answers.read_bytes() == clearhead(*words).stdout
    assert len(answers.read_text().splitlines()) == 10 * COUNT


def test_an_interrupt_says_how_to_go_on(place: Path, tmp_path: Path) -> None:
    """Ctrl-C at the terminal, which all processes of the command get: one line, exit 130, no traceback."""
    answers = tmp_path / "answers.txt"
    words = ["run", str(place / "run"), str(place / "lines.txt"), "-o", str(answers), "--threads", "2"]
    words += ["--beam-size", "1", "decoding.max_length=8"]
    with Forked(words, env=ENVIRONMENT, stderr=subprocess.PIPE, start_new_session=True) as process:
        wait_until_some_are_safe(process, answers)
        os.killpg(process.pid, signal.SIGINT)
        assert process.stderr is not None
        said = process.stderr.read().decode()
        assert process.wait(timeout=120) == 130
    assert "Traceback" not in said
    assert "the same command with --resume answers the rest" in said
    assert lines_of(clearhead(*words, "--resume")) == []
    assert len(answers.read_text().splitlines()) == COUNT


def test_options_about_no_file(place: Path) -> None:
    for option in ("--resume", "--force"):
        result = clearhead("run", str(place / "run"), option)
        assert result.returncode == 2
        assert "name it with -o" in result.stderr.decode()
