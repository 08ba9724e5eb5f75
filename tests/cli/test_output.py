"""``clearhead run -o FILE``: killed in the middle and resumed, the file is the same byte for byte."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.forked import Forked
from tests.cli.test_run import clearhead, lines_of
from tests.cli.test_train import ENVIRONMENT
from tests.training.toy import SMALL, write_pairs

COUNT = 9000


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, and with lines that take some seconds to answer."""
    folder = tmp_path_factory.mktemp("output")
    pairs = write_pairs(folder / "pairs.tsv")
    trained = clearhead("train", str(pairs), "-o", str(folder / "run"), "--max-steps", "20", *SMALL)
    assert trained.returncode == 0, trained.stderr.decode()
    words = [line.partition("\t")[0] for line in pairs.read_text().splitlines()]
    (folder / "lines.txt").write_text(
        "".join(f"{words[n % len(words)]}{words[n * 7 % len(words)]}\n" for n in range(COUNT))
    )
    return folder


def killed(words: list[str], partial: Path, given: int | None = None) -> None:
    """SIGKILL once some answers are safe."""
    process = Forked(words, env=ENVIRONMENT, stdin=given, start_new_session=True)
    journal = partial.with_suffix(".journal")
    deadline = time.monotonic() + 60
    while not (journal.exists() and journal.read_bytes().count(b"\n") > 1) and time.monotonic() < deadline:
        assert process.poll() is None, "it was done before it could be killed"
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=30)


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
        killed(words, partial, stream.fileno() if pipe else None)
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


def test_an_interrupt_says_how_to_go_on(place: Path, tmp_path: Path) -> None:
    """Ctrl-C at the terminal, which all processes of the command get: one line, exit 130, no traceback."""
    answers, some = tmp_path / "answers.txt", tmp_path / "some.txt"
    some.write_text("".join((place / "lines.txt").read_text().splitlines(keepends=True)[:2000]))
    words = ["run", str(place / "run"), str(some), "-o", str(answers), "--threads", "2"]
    with Forked(words, env=ENVIRONMENT, stderr=subprocess.PIPE, start_new_session=True) as process:
        while not (tmp_path / "answers.txt.partial").exists():
            time.sleep(0.01)
        time.sleep(0.3)
        os.killpg(process.pid, signal.SIGINT)
        assert process.stderr is not None
        said = process.stderr.read().decode()
        assert process.wait(timeout=30) == 130
    assert "Traceback" not in said
    assert "the same command with --resume answers the rest" in said
    assert lines_of(clearhead(*words, "--resume")) == []
    assert len(answers.read_text().splitlines()) == 2000


def test_options_about_no_file(place: Path) -> None:
    for option in ("--resume", "--force"):
        result = clearhead("run", str(place / "run"), option)
        assert result.returncode == 2
        assert "name it with -o" in result.stderr.decode()
