"""``clearhead run`` and ``score`` as a filter: order, empty lines, pipes, formats, and what goes wrong."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.forked import Forked, forked
from tests.cli.test_train import ENVIRONMENT
from tests.cli.typed import typed
from tests.training.toy import SMALL, write_pairs

LINES = ["abc", "", "gfedc", "a", "   ", "bbd", "ccdd"]


def clearhead(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return forked(*arguments, given=given, env=ENVIRONMENT)


def lines_of(result: subprocess.CompletedProcess[bytes]) -> list[str]:
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout.decode().splitlines()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run folder; how good its model is does not matter here."""
    folder = tmp_path_factory.mktemp("run")
    pairs = write_pairs(folder / "pairs.tsv")
    result = clearhead("train", str(pairs), "-o", str(folder / "run"), "--max-steps", "60", *SMALL)
    assert result.returncode == 0, result.stderr.decode()
    return str(folder / "run")


def test_one_line_out_for_every_line_in(run: str, tmp_path: Path) -> None:
    """A file, a gzipped file, a pipe, two files, one worker or two: the same answers in the same order."""
    text = "\n".join(LINES)
    plain, zipped = tmp_path / "lines.txt", tmp_path / "lines.gz"
    plain.write_text(text)
    zipped.write_bytes(gzip.compress(text.encode()))
    answers = lines_of(clearhead("run", run, str(plain), "--threads", "1"))
    assert len(answers) == len(LINES)
    assert [bool(answer) for answer in answers] == [bool(line.strip()) for line in LINES]
    assert lines_of(clearhead("run", run, str(zipped), "--threads", "2")) == answers
    assert lines_of(clearhead("run", run, given=text.encode())) == answers
    assert lines_of(clearhead("run", run, given=text.replace("\n", "\r\n").encode())) == answers
    assert lines_of(clearhead("run", run, str(plain), str(zipped))) == answers * 2
    empty = tmp_path / "empty.txt"
    empty.touch()
    assert lines_of(clearhead("run", run, str(empty))) == []
    assert lines_of(clearhead("run", run)) == []


def test_a_pipe_is_answered_line_by_line(run: str) -> None:
    """Each answer is there before the next line is written."""
    answers = []
    with Forked(["run", run], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in LINES:
            process.stdin.write(line.encode() + b"\n")
            process.stdin.flush()
            answers.append(process.stdout.readline().decode().rstrip("\n"))
        process.stdin.close()
        assert process.wait(timeout=120) == 0
    assert answers == lines_of(clearhead("run", run, given="\n".join(LINES).encode()))


def test_formats(run: str, tmp_path: Path) -> None:
    """--scores = score, to the digits printed; n-best in Moses' format; JSON keeps what it does not know."""

    def scores_of(*arguments: str) -> list[str]:
        result = typed("score", run, *arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout.splitlines()

    scored = [line.split("\t") for line in lines_of(clearhead("run", run, "--scores", given=b"abc\ngfe\n"))]
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{source}\t{text}\n" for source, (text, _) in zip(("abc", "gfe"), scored, strict=True)))
    scores = scores_of(str(pairs))
    assert [float(value) for _, value in scored] == pytest.approx([float(value) for value in scores], abs=1e-5)
    hard = "decoding.attention=hard"
    (line,) = lines_of(clearhead("run", run, "--scores", hard, "decoding.min_length=3", given=b"abc\n"))
    answer, value = line.split("\t")
    pair = tmp_path / "pair.tsv"
    pair.write_text(f"abc\t{answer}\n")
    assert float(scores_of(str(pair), hard)[0]) == pytest.approx(float(value), abs=1e-5)
    assert float(scores_of(str(pair))[0]) != pytest.approx(float(value), abs=1e-3)
    best = [line.split(" ||| ") for line in lines_of(clearhead("run", run, "--n-best", "3", given=b"abc\ngfe\n"))]
    assert [row[0] for row in best] == ["0", "0", "0", "1", "1", "1"]
    assert [best[0][1], best[3][1]] == [text for text, _ in scored]
    source = tmp_path / "lines.jsonl"
    source.write_text('{"source": "abc", "id": 7, "note": "ä"}\n')
    (table,) = [json.loads(line) for line in lines_of(clearhead("run", run, str(source), "--json", "--n-best", "2"))]
    assert (table["source"], table["id"], table["note"], table["target"]) == ("abc", 7, "ä", scored[0][0])
    assert len(table["answers"]) == 2
    (row,) = [json.loads(line) for line in scores_of(str(pairs), "--json")[:1]]
    assert sum(row["tokens"]) == pytest.approx(row["log_probability"])


def test_long_lines_are_cut_and_said(run: str) -> None:
    """100,000 symbols, control characters: an answer, and for the long one a warning; order is kept."""
    given = b"\n".join([b"abc", b"a" * 100_000, b"\x00\x07\x1b[2J", b"abc"])
    result = clearhead("run", run, "decoding.max_length=5", given=given)
    answers = lines_of(result)
    assert len(answers) == 4
    assert answers[0] == answers[3]
    assert "standard input, line 2: is longer than decoding.max_source allows" in result.stderr.decode()


def test_what_the_model_does_not_know_is_named(run: str, tmp_path: Path) -> None:
    """With its line, ten times; the others are counted, apart from other warnings. score and eval do so too."""
    given = "\n".join(["abc", "HELLO", *(["axb"] * 12), "a" * 2000]).encode()
    result = clearhead("run", run, "decoding.max_length=2", given=given)
    assert len(lines_of(result)) == 15
    said = result.stderr.decode().splitlines()
    assert said[0] == "standard input, line 2: the model does not know H E L O; train with data.case=lower, or " + (
        "lower-case the input"
    )
    assert said[1] == "standard input, line 3: the model does not know x"
    assert "… and 3 more warnings of this kind" in said
    assert any("line 15: is longer than" in line for line in said)
    assert len(said) == 12
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("abc\tA\nABC\tA\n")
    for verb in ("score", "eval"):
        shown = typed(verb, run, str(pairs))
        assert shown.returncode == 0
        assert "pairs.tsv, line 2: the model does not know A B C; train with data.case=lower" in shown.stderr


def test_standard_input_by_its_name(run: str, tmp_path: Path) -> None:
    """`-` is standard input, also among files; a pipe that has a name is read like a file."""
    file = tmp_path / "lines.txt"
    file.write_text("gfe\n")
    both = lines_of(clearhead("run", run, "-", str(file), given=b"abc\n"))
    assert both == lines_of(clearhead("run", run, given=b"abc\ngfe\n"))
    assert lines_of(clearhead("run", run, "/dev/stdin", given=b"abc\n")) == both[:1]


def test_sampling_does_not_depend_on_the_workers(run: str) -> None:
    settings = ["decoding.sample=true", "decoding.seed=3"]
    given = "\n".join(LINES * 20).encode()
    one = lines_of(clearhead("run", run, "--threads", "1", *settings, given=given))
    assert lines_of(clearhead("run", run, "--threads", "2", *settings, given=given)) == one
    assert lines_of(clearhead("run", run, "decoding.sample=true", "decoding.seed=4", given=given)) != one


@pytest.mark.parametrize(
    ("arguments", "given", "code", "message"),
    [
        (["nowhere.txt"], b"", 3, "nowhere.txt: no such file"),
        (["model.layers=2"], b"", 2, "only decoding.key can be set"),
        (["decoding.beam=2"], b"", 2, "did you mean beam_size?"),
        (["--beam-size", "0"], b"", 2, "decoding.beam_size = 0"),
        (["--threads", "1000000000000"], b"a", 2, "--threads"),
        (["decoding.banned=[99999999]"], b"a", 2, "there is no token 99999999: ids range from 0 to"),
        (["."], b"", 3, ".: is a folder, not a file of data"),
        (["--n-best", "5", "--beam-size", "2"], b"a", 1, "5 answers need decoding.beam_size ≥ 5"),
        ([], b"abc\n\xff\n", 3, "standard input, line 2: is not UTF-8 (byte 1 of the line is 0xff)"),
        (["--from", "jsonl"], b"abc\n", 3, "standard input, line 1: not JSON"),
        (["--from", "jsonl"], b'{"text": 1}\n', 3, 'no text in the field "source"'),
        (["--from", "jsonl"], b'{"source": "\\ud800"}\n', 3, "unpaired surrogate"),
    ],
)
def test_what_goes_wrong_is_one_message(
    run: str, arguments: Sequence[str], given: bytes, code: int, message: str
) -> None:
    result = clearhead("run", run, *arguments, given=given)
    assert result.returncode == code, result.stderr.decode()
    assert message in result.stderr.decode()
    assert "Traceback" not in result.stderr.decode()


def test_a_consumer_that_leaves_ends_it_quietly(run: str) -> None:
    """`clearhead run … | head -1`: no message, no traceback, no process left behind."""
    command = [sys.executable, "-m", "clearhead", "run", run]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=ENVIRONMENT)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(b"abc\n")
    process.stdin.flush()
    assert process.stdout.readline()
    process.stdout.close()
    with suppress(BrokenPipeError):
        for _ in range(200):
            process.stdin.write(b"abc\n" * 50)
            process.stdin.flush()
    with suppress(BrokenPipeError):
        process.stdin.close()
    assert process.wait(timeout=120) != 0
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    pairs = write_pairs(tmp_path / "pairs.tsv")
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    result = clearhead("train", str(pairs), "-o", str(locked / "run"), "--max-steps", "1", *SMALL)
    assert result.returncode == 1
    assert "Permission denied" in result.stderr.decode()
