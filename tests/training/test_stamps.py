"""Resuming does not read what has not changed: the opens of files are counted. What has changed is refused as ever."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clearhead.errors import DataError
from clearhead.recipe import read_recipe
from clearhead.training import Prepared, prepare, reopen
from clearhead.training.stamps import NAME, Stamps, read_stamps, stamps_of, write_stamps
from tests.training.toy import FAMILIES, FEW, SMALL, write_pairs

_watching: list[list[str]] = []


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open":
        for opened in _watching:
            opened.append(str(arguments[0]))


sys.addaudithook(_note)


@contextmanager
def counted() -> Iterator[list[str]]:
    """The names of all files that are opened inside, however Python does it."""
    opened: list[str] = []
    _watching.append(opened)
    try:
        yield opened
    finally:
        _watching.remove(opened)


def age(*paths: Path) -> None:
    """Let files be an hour old: those written just now are not trusted."""
    for path in paths:
        os.utime(path, (time.time() - 3600,) * 2)


def aged_run(tmp_path: Path, *settings: str, family: str = "seq2seq") -> tuple[Path, Path, Prepared]:
    """A data file, a run on it, and both as if they were made an hour ago."""
    data = FAMILIES.get(family, write_pairs)(tmp_path / "data.tsv", count=FEW)
    age(data)
    recipe = read_recipe(None, f'data.train="{data}"', f"model.family={family}", *SMALL, "training.steps=2", *settings)
    run = prepare(recipe, tmp_path / "run")
    age(*(tmp_path / "run" / "data").iterdir())
    reopen(
        tmp_path / "run"
    ).note_files()  # compares the encoded examples with their checksums, as they were written just now
    return data, tmp_path / "run", run


@pytest.mark.parametrize("family", ["seq2seq", *FAMILIES])
def test_a_run_is_resumed_without_reading_its_texts(tmp_path: Path, family: str) -> None:
    """Neither the data nor, beyond mapping them, the encoded examples; and it is the same run."""
    data, folder, before = aged_run(tmp_path, family=family)
    with counted() as opened:
        run = reopen(folder)
    assert str(folder / "run.json") in opened
    assert str(data) not in opened
    arrays = [path for path in (folder / "data").iterdir() if path.suffix in (".ids", ".starts")]
    assert arrays
    assert all(opened.count(str(path)) <= 1 for path in arrays)  # mapped once, never hashed
    assert run.identity == before.identity
    assert run.corpus.dev == before.corpus.dev
    assert run.corpus.test == before.corpus.test
    assert run.corpus.fingerprint() == before.corpus.fingerprint()
    assert run.corpus.checksums == before.corpus.checksums
    assert (run.corpus.train_size, run.corpus.notes) == (before.corpus.train_size, before.corpus.notes)
    assert len(run.examples) == len(before.examples)
    with pytest.raises(AssertionError, match="are not read again"):
        list(run.corpus.train())


def test_data_that_were_touched_are_read_and_data_that_changed_are_refused(tmp_path: Path) -> None:
    data, folder, _ = aged_run(tmp_path)
    os.utime(data, (time.time() - 1800,) * 2)
    with counted() as opened:
        reopen(folder).note_files()
    assert str(data) in opened
    with counted() as opened:  # and is known from then on
        reopen(folder)
    assert str(data) not in opened
    content = data.read_bytes()
    data.write_bytes(content.replace(b"A", b"B", 1))  # of the same size
    assert data.stat().st_size == len(content)
    with pytest.raises(DataError, match="the data have changed"):
        reopen(folder)


def test_a_file_that_was_written_just_now_is_not_trusted(tmp_path: Path) -> None:
    """A second change within one tick of the clock would leave its size and its time as they are."""
    data, folder, _ = aged_run(tmp_path)
    times = (time.time(),) * 2
    os.utime(data, times)
    reopen(folder).note_files()
    content = data.read_bytes()
    data.write_bytes(content[::-1])
    os.utime(data, times)
    with pytest.raises(DataError, match=r"the data have changed|data.tsv"):
        reopen(folder)


def test_a_part_of_the_data_that_is_gone_is_missed(tmp_path: Path) -> None:
    """Of a pattern's files, those that are left are as they were."""
    one, other = (write_pairs(tmp_path / f"part-{name}.tsv", count=FEW, seed=seed) for seed, name in enumerate("ab"))
    age(one, other)
    recipe = read_recipe(None, f'data.train="{tmp_path}/part-*.tsv"', *SMALL, "training.steps=2")
    prepare(recipe, tmp_path / "run")
    with counted() as opened:
        reopen(tmp_path / "run")
    assert str(one) not in opened
    other.unlink()
    with pytest.raises(DataError, match="the data have changed"):
        reopen(tmp_path / "run")


def test_encoded_examples_that_changed_are_made_again(tmp_path: Path) -> None:
    _, folder, before = aged_run(tmp_path)
    array = max((folder / "data").glob("*.ids"), key=lambda path: path.stat().st_size)
    content = bytearray(array.read_bytes())
    content[-1] ^= 1
    array.write_bytes(content)
    run = reopen(folder)
    assert any("rebuilt from the data" in note for note in run.notes)
    assert before.identity == run.identity


def test_a_process_that_does_not_lead_never_opens_the_texts(tmp_path: Path) -> None:
    """Not even if their stamps are unknown to it: on another machine they may not be there."""
    data, folder, before = aged_run(tmp_path)
    data.unlink()
    with counted() as opened:
        run = reopen(folder, leads=False)
    assert str(data) not in opened
    assert run.corpus.dev == before.corpus.dev
    with pytest.raises(DataError):
        reopen(folder)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"files": {}}', b'{"files": {"a": 1}, "checksum": ""}', b"\xff"])
def test_stamps_that_cannot_be_read_are_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / NAME).write_bytes(content)
    assert read_stamps(tmp_path) == Stamps()


def test_stamps_that_were_edited_are_none(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("a")
    age(file)
    write_stamps(tmp_path, stamps_of([file]))
    assert read_stamps(tmp_path).unchanged(file)
    text = (tmp_path / NAME).read_text()
    (tmp_path / NAME).write_text(text.replace("[1, ", "[2, "))
    assert read_stamps(tmp_path) == Stamps()


def test_a_run_from_before_is_read_as_before(tmp_path: Path) -> None:
    """Without held_out.json in its run.json."""
    from dataclasses import replace

    from clearhead.training.manifest import read_manifest, write_manifest

    data, folder, before = aged_run(tmp_path)
    manifest = read_manifest(folder)
    files = {name: found for name, found in manifest.files.items() if name != "held_out.json"}
    write_manifest(folder, replace(manifest, files=files))
    (folder / "data" / "held_out.json").unlink()
    with counted() as opened:
        assert reopen(folder).identity == before.identity
    assert str(data) in opened
