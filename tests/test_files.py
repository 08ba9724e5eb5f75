"""Files are written whole or not at all, whatever fails: writing, syncing, renaming."""

import os
from pathlib import Path

import pytest

from clearhead.files import sha256_of, whole_file, whole_folder, write_whole


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_what_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(*{"fsync": (os, "fsync"), "replace": (Path, "replace")}[call], fail)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_block_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def write_half() -> None:
        with whole_file(tmp_path / "file") as stream:
            stream.write(b"half")
            raise ValueError("in the middle")

    with pytest.raises(ValueError, match="in the middle"):
        write_half()
    assert not list(tmp_path.iterdir())


def test_checksums_tell_one_bit(tmp_path: Path) -> None:
    left, right = tmp_path / "left", tmp_path / "right"
    left.write_bytes(bytes(3_000_000))
    right.write_bytes(bytes(2_999_999) + b"\x01")
    assert sha256_of(left) != sha256_of(right)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    for content in (b"first", b"second"):
        write_whole(link, content)
        assert link.is_symlink()
        assert target.read_bytes() == content


def test_a_device_is_written_to_and_never_replaced(tmp_path: Path) -> None:
    """Reached through a link, so that code which replaces what it is given replaces no device of this machine."""
    null, full = tmp_path / "null", tmp_path / "full"
    null.symlink_to("/dev/null")
    full.symlink_to("/dev/full")
    write_whole(null, b"gone")
    with pytest.raises(OSError, match="No space left"):
        write_whole(full, b"no room")
    assert Path("/dev/null").is_char_device()
    assert Path("/dev/full").is_char_device()
    assert null.is_char_device()
    assert full.is_char_device()


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, b"through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert pipe.is_fifo()


def test_a_folder_that_cannot_take_its_name_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "folder"
    with whole_folder(path) as folder:
        (folder / "file").write_text("old")
    rename = Path.rename

    def fail(source: Path, target: Path) -> Path:
        if target == path and (source / "file").read_text() == "new":
            raise OSError(5, "Input/output error")
        return rename(source, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(OSError, match="Input/output"), whole_folder(path) as folder:
        (folder / "file").write_text("new")
    assert (path / "file").read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]
