"""``clearhead.answer_shards``: a folder of answers, one file for each file of lines, whoever is killed on the way."""

import gzip
import json
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import clearhead
from clearhead.predictor import Answered, AnsweringWork, Line
from tests.cli.typed import typed
from tests.training.toy import FEW, SMALL, write_pairs

TEXTS = {
    "a.txt": "ab\n\nba\ngfedc\n" * 30,
    "b.txt.gz": "",
    "c.txt": "  \nccdd\r\n",
    "d.jsonl": '{"source": "ab", "n": 1}\n',
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> clearhead.Run:
    folder = tmp_path_factory.mktemp("shards")
    return clearhead.train(write_pairs(folder / "pairs.tsv", count=FEW), folder / "run", steps=20, settings=SMALL)


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    for name, text in TEXTS.items():
        content = text.encode()
        (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return folder


def alone(run: clearhead.Run, inputs: Path, folder: Path) -> dict[str, bytes]:
    """What ``clearhead run FILE -o`` writes for each file."""
    folder.mkdir()
    for name in TEXTS:
        clearhead.answer_file(run, inputs / name, folder / name, scores=True)
    return {name.removesuffix(".gz"): (folder / name).read_bytes() for name in TEXTS}


def answers_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


@pytest.mark.parametrize("workers", [1, 2])
def test_each_file_gets_the_answers_that_it_gets_alone(
    run: clearhead.Run, inputs: Path, tmp_path: Path, workers: int
) -> None:
    """Plain, gzipped, empty and JSON: the same bytes, whether one process works or two."""
    events: list[clearhead.Event] = []
    pattern, out = inputs / "*", tmp_path / "deep" / "out"
    count = clearhead.answer_shards(run, pattern, out, scores=True, workers=workers, report=events.append)
    assert answers_in(out) == alone(run, inputs, tmp_path / "alone")
    assert count == sum(text.count("\n") for text in TEXTS.values())
    assert [(events[0].kind, events[0].steps), (events[-1].kind, events[-1].step)] == [("start", count), ("end", count)]
    assert not list(out.rglob("*.partial"))


def test_numbers_count_from_the_beginning_of_each_file(run: clearhead.Run, inputs: Path, tmp_path: Path) -> None:
    """So that n-best lists and samples are those of the file alone; counted over all files they would differ."""
    sampled = {"decoding.sample": True, "decoding.seed": 3, "decoding.temperature": 5.0}
    files = [inputs / "a.txt", inputs / "c.txt"]
    clearhead.answer_shards(run, files, tmp_path / "out", settings=sampled)
    clearhead.answer_file(run, files[1], tmp_path / "c.txt", settings=sampled)
    clearhead.answer_file(run, files, tmp_path / "both.txt", settings=sampled)
    found = (tmp_path / "out" / "c.txt").read_bytes()
    assert found == (tmp_path / "c.txt").read_bytes()
    assert not (tmp_path / "both.txt").read_bytes().endswith(found)


Call = Callable[[AnsweringWork, Sequence[Line]], list[Answered]]


def killing(times: int, marks: Path) -> Call:
    """The usual work, but the process that meets line 50 is killed, so many times."""
    answer = AnsweringWork.__call__

    def work(self: AnsweringWork, lines: Sequence[Line]) -> list[Answered]:
        if any(line.number == 50 for line in lines) and len(list(marks.glob("killed-*"))) < times:
            (marks / f"killed-{os.getpid()}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return answer(self, lines)

    return work


def test_a_worker_killed_in_the_middle_loses_no_line_and_doubles_none(
    run: clearhead.Run, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = alone(run, inputs, tmp_path / "alone")
    monkeypatch.setattr(AnsweringWork, "__call__", killing(2, tmp_path))
    events: list[clearhead.Event] = []
    clearhead.answer_shards(run, inputs / "*", tmp_path / "out", scores=True, workers=2, report=events.append)
    assert answers_in(tmp_path / "out") == expected
    assert len(list(tmp_path.glob("killed-*"))) == 2
    assert [event.category for event in events if event.kind == "warning" and event.category == "killed"] == [
        "killed"
    ] * 2


def test_a_file_that_kills_every_worker_is_given_up(
    run: clearhead.Run, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was finished before stays; what was not has no name yet; --resume does the rest."""
    (inputs / "0.txt").write_text("ab\n")
    monkeypatch.setattr(AnsweringWork, "__call__", killing(99, tmp_path))
    out = tmp_path / "out"
    with pytest.raises(clearhead.ClearheadError, match="a worker process was killed"):
        clearhead.answer_shards(run, inputs / "*", out, workers=2)
    assert list(answers_in(out)) == ["0.txt"]
    monkeypatch.undo()
    written = (out / "0.txt").stat().st_mtime_ns
    events: list[clearhead.Event] = []
    clearhead.answer_shards(run, inputs / "*", out, resume=True, report=events.append)
    assert sorted(answers_in(out)) == ["0.txt", "a.txt", "b.txt", "c.txt", "d.jsonl"]
    assert (out / "0.txt").stat().st_mtime_ns == written
    assert str(events[0]) == "1 of 5 files are answered already"


def test_only_what_the_same_command_finished_is_kept(run: clearhead.Run, inputs: Path, tmp_path: Path) -> None:
    """Another setting, a changed input, changed answers and a stranger's file are refused, each with what differs."""
    out = tmp_path / "out"
    clearhead.answer_shards(run, inputs / "*", out)
    with pytest.raises(clearhead.ClearheadError, match=r"a\.txt: exists already; add --resume .* or --force"):
        clearhead.answer_shards(run, inputs / "*", out)
    with pytest.raises(clearhead.ClearheadError, match="--scores was False, and is now True"):
        clearhead.answer_shards(run, inputs / "*", out, resume=True, scores=True)
    with pytest.raises(clearhead.ClearheadError, match="choose one"):
        clearhead.answer_shards(run, inputs / "*", out, resume=True, force=True)
    (inputs / "a.txt").write_text("other\n")
    with pytest.raises(clearhead.ClearheadError, match="input 1 was"):
        clearhead.answer_shards(run, inputs / "*", out, resume=True)
    clearhead.answer_shards(run, inputs / "*", out, force=True)
    assert (out / "a.txt").read_bytes().count(b"\n") == 1
    (out / "c.txt").write_text("edited\n")
    with pytest.raises(clearhead.DataError, match="has changed since it was written"):
        clearhead.answer_shards(run, inputs / "*", out, resume=True)
    (inputs / "e.txt").write_text("ab\n")
    (out / "e.txt").write_text("mine\n")
    with pytest.raises(clearhead.ClearheadError, match="nothing is known of this file"):
        clearhead.answer_shards(run, inputs / "e.txt", out, resume=True)
    assert (out / "e.txt").read_text() == "mine\n"


def test_a_stop_between_note_and_name_is_made_good(run: clearhead.Run, inputs: Path, tmp_path: Path) -> None:
    """The last instant before the file has its name: it gets it by --resume, unless it was damaged; then it is made."""
    out = tmp_path / "out"
    clearhead.answer_shards(run, inputs / "a.txt", out)
    whole = (out / "a.txt").read_bytes()
    for left in (whole, whole[:-1]):
        (out / "a.txt").rename(out / ".clearhead" / "a.txt.partial")
        (out / ".clearhead" / "a.txt.partial").write_bytes(left)
        clearhead.answer_shards(run, inputs / "a.txt", out, resume=True)
        assert (out / "a.txt").read_bytes() == whole
        assert not list(out.rglob("*.partial"))


def test_answers_never_replace_their_input_or_each_other(run: clearhead.Run, inputs: Path, tmp_path: Path) -> None:
    with pytest.raises(clearhead.DataError, match="its answers would replace it"):
        clearhead.answer_shards(run, inputs / "*.txt", inputs, force=True)
    (inputs / "a.txt.gz").write_bytes(gzip.compress(b"ab\n"))
    with pytest.raises(clearhead.DataError, match=r"their answers would both be .*a\.txt: rename one"):
        clearhead.answer_shards(run, inputs / "a.*", tmp_path / "out")
    with pytest.raises(clearhead.DataError, match="no file has a name like this"):
        clearhead.answer_shards(run, inputs / "*.nothing", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_bad_line_is_named_and_finished_files_stay(run: clearhead.Run, inputs: Path, tmp_path: Path) -> None:
    (inputs / "e.jsonl").write_text('{"source": "ab"}\n{"text": "ab"}\n')
    with pytest.raises(clearhead.DataError, match=r'e\.jsonl, line 2: has no text in the field "source"'):
        clearhead.answer_shards(run, inputs / "*", tmp_path / "out", workers=2)
    assert sorted(answers_in(tmp_path / "out")) == ["a.txt", "b.txt", "c.txt", "d.jsonl"]


def test_the_command(run: clearhead.Run, inputs: Path, tmp_path: Path) -> None:
    """A folder is named by its slash, or is there; a pattern without -o, or with a file, is a list of files."""
    model, out = str(run.folder), tmp_path / "out"
    words = ["run", model, str(inputs / "*"), "-o", f"{out}/", "--threads", "1", "--json"]
    assert typed(*words).returncode == 0
    assert [json.loads(line)["n"] for line in (out / "d.jsonl").read_text().splitlines()] == [1]
    assert typed(*words).returncode == 1
    resumed = typed(*words, "--resume")
    assert (resumed.returncode, resumed.stderr.strip()) == (0, "4 of 4 files are answered already")
    one = typed("run", model, str(inputs / "*.txt"), "-o", str(tmp_path / "one.txt"), "--threads", "1")
    assert (one.returncode, (tmp_path / "one.txt").read_text().count("\n")) == (0, TEXTS["a.txt"].count("\n") + 2)
    for refused in (["--on", "ray"], ["--on", "ray", "-o", str(tmp_path / "answers.txt")]):
        result = typed("run", model, str(inputs / "*"), *refused)
        assert (result.returncode, "name the folder of answers with -o out/" in result.stderr) == (2, True)
    assert typed("run", model, "-", "-o", f"{out}/").returncode == 2
    assert typed("run", model, str(inputs / "*"), "--vectors", "-o", f"{out}/").returncode == 2
