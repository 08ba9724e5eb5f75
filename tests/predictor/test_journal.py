"""Answers on their way to a file: whole or not at all, and resumable."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from clearhead.errors import ClearheadError, DataError, RecipeError
from clearhead.predictor import Journal, Line, input_identity

IDENTITY = {"the model": "abc", "decoding.beam_size": 4}


def lines(texts: Iterable[str]) -> list[Line | None]:
    return [Line(number, f"line {number}", text) for number, text in enumerate(texts)]


def interrupted(path: Path, texts: str = "abcdef", done: int = 3) -> None:
    """Answer some lines, and stop."""

    def begin() -> None:
        with Journal(path, IDENTITY) as journal:
            for line in journal.left(lines(texts)):
                assert line is not None
                if line.number == done:
                    raise KeyboardInterrupt
                journal.write([[line.source.upper()]])

    with pytest.raises(KeyboardInterrupt):
        begin()


def resumed(path: Path, texts: str = "abcdef") -> list[str]:
    with Journal(path, IDENTITY, resume=True) as journal:
        done = journal.done
        left = [line for line in journal.left(lines(texts)) if line is not None]
        for line in left:
            journal.write([[line.source.upper()]])
        journal.finish()
    assert left[0].number == 0  # the first of its window
    return [line.source for line in left][done:]


def test_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    interrupted(path)
    assert not path.exists()
    assert resumed(path) == ["d", "e", "f"]
    assert path.read_text() == "A\nB\nC\nD\nE\nF\n"
    assert list(tmp_path.iterdir()) == [path]


def test_resume_with_nothing_begun_starts(tmp_path: Path) -> None:
    assert resumed(tmp_path / "answers") == list("abcdef")


def test_what_was_not_recorded_is_answered_again(tmp_path: Path) -> None:
    """A kill leaves half a row, and half a record: both are dropped, twice over."""
    path = tmp_path / "answers"
    interrupted(path)
    for _ in range(2):
        with (tmp_path / "answers.partial").open("ab") as stream:
            stream.write(b"D\nhal")
        with (tmp_path / "answers.journal").open("ab") as stream:
            stream.write(b'{"lines": 4, "by')
        with pytest.raises(KeyboardInterrupt), Journal(path, IDENTITY, resume=True):
            raise KeyboardInterrupt
    assert resumed(path) == ["d", "e", "f"]
    assert path.read_text() == "A\nB\nC\nD\nE\nF\n"


def test_differences_are_named(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    interrupted(path)
    with pytest.raises(
        ClearheadError, match=r"decoding\.beam_size was 4, and is now 1; --json was None, and is now True"
    ):
        Journal(path, {"the model": "abc", "decoding.beam_size": 1, "--json": True}, resume=True)
    with pytest.raises(ClearheadError, match="the first 3 lines of the input are not those"):
        resumed(path, "abXdef")
    with pytest.raises(ClearheadError, match="the input has 2 lines, but 3 were answered"):
        resumed(path, "ab")
    assert resumed(path) == ["d", "e", "f"]


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    interrupted(path)
    with pytest.raises(ClearheadError, match=r"answers.partial: has answers of an earlier command; add --resume"):
        Journal(path, IDENTITY)
    resumed(path)
    for again in (False, True):
        with pytest.raises(ClearheadError, match="answers: exists already; add --force"):
            Journal(path, IDENTITY, resume=again)
    with pytest.raises(RecipeError, match="choose one"):
        Journal(path, IDENTITY, resume=True, force=True)
    with Journal(path, IDENTITY, force=True) as journal:
        journal.write([["new"]])
        assert path.read_text().startswith("A\n")
        journal.finish()
    assert path.read_text() == "new\n"
    with pytest.raises(ClearheadError, match=r"the folder .* does not exist"):
        Journal(tmp_path / "no" / "answers", IDENTITY)
    with pytest.raises(ClearheadError, match="is a folder; name a file inside it"):
        Journal(tmp_path, IDENTITY)


@pytest.mark.parametrize("name", ["answers.partial", "answers.journal"])
@pytest.mark.parametrize("damage", [b"", b"\0" * 40, b"{}\n[1]\n", b"[]\n"])
def test_damage_is_noticed(tmp_path: Path, name: str, damage: bytes) -> None:
    path = tmp_path / "answers"
    interrupted(path)
    (tmp_path / name).write_bytes(damage)
    with pytest.raises(DataError, match=rf"{name}: is damaged.*start again with --force"):
        Journal(path, IDENTITY, resume=True)


@pytest.mark.parametrize("record", ['{"lines": 2}', '{"lines": "2", "bytes": 4, "answers": "", "input": ""}'])
def test_a_record_that_lies(tmp_path: Path, record: str) -> None:
    path = tmp_path / "answers"
    interrupted(path)
    with (tmp_path / "answers.journal").open("a") as stream:
        stream.write(record + "\n")
    with pytest.raises(DataError, match="is damaged"):
        Journal(path, IDENTITY, resume=True)


def test_input_is_known_by_its_content(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("a\n")
    two.write_text("a\n")
    assert input_identity([one]) == input_identity([two])
    two.write_text("b\n")
    assert input_identity([one]) != input_identity([two])
    assert input_identity([]) == {"input 1": "a pipe"}
