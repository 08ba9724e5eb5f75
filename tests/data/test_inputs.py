"""Where bytes come from, and what can be wrong with them: pipes, devices, encodings, damage; never a hang."""

import gzip
import io
import os
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from clearhead.data import PAIRS, inputs, lines, read_corpus, read_lines
from clearhead.data.stream import LONGEST
from clearhead.errors import DataError
from clearhead.recipe import DataSpec

ZIPPED = gzip.compress(b"".join(b"a%d\tb\n" % number for number in range(20_000)), mtime=0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (ZIPPED[:-8] + bytes(4) + ZIPPED[-4:], "it is damaged"),
        (ZIPPED[:10] + b"\x07" * 50, "it is damaged at its beginning"),
        (ZIPPED[:-20], "it is cut off"),
        (ZIPPED + b"more", "something that is not gzip follows its end"),
        (b"a\tb\n", "called .gz, but is not gzipped"),
    ],
)
def test_damaged_gzip(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "x.tsv.gz"
    file.write_bytes(content)
    with pytest.raises(DataError, match="is not a whole gzip file") as caught:
        list(read_lines(file))
    assert message in str(caught.value)


def test_gzip_is_known_without_its_name(tmp_path: Path) -> None:
    file = tmp_path / "x.tsv"
    file.write_bytes(ZIPPED)
    assert sum(1 for _ in read_lines(file)) == 20_000


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_other_encodings_are_named(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "x.tsv"
    file.write_bytes("source one\ttarget\nzwei\ttwo\n".encode(encoding))
    with pytest.raises(DataError, match=f"is {encoding[:6].upper()}.*not UTF-8: convert it: iconv -f UTF-"):
        list(read_lines(file))


def test_a_line_without_end(tmp_path: Path) -> None:
    file = tmp_path / "x.tsv"
    file.write_bytes(b"a\tb\n" + b"x" * (LONGEST + 5))
    with pytest.raises(DataError, match=r"line 2: has more than 16,000,000 bytes"):
        list(read_lines(file))
    file.write_bytes(b"a\tb\r" * (LONGEST // 4 + 1))
    with pytest.raises(DataError, match="CR alone"):
        list(read_lines(file))


def test_zero_bytes_are_bad_lines(tmp_path: Path) -> None:
    file = tmp_path / "x.tsv"
    file.write_bytes(b"a\tb\0c\nd\te\n")
    assert next(str(item).rpartition(": ")[2] for item in PAIRS.scan(str(file))) == "a NUL byte, which no text has"


@pytest.mark.parametrize(("name", "message"), [(".", "is a folder"), ("/dev/zero", "is a device"), ("no", "No such")])
def test_what_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=message):
        list(read_lines(name))


def test_nothing_can_be_read_from_nothing() -> None:
    assert list(read_lines("/dev/null")) == []


def test_a_pipe_that_nobody_writes_to_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "PATIENCE", 0.1)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="nobody has written to"):
        list(read_lines(tmp_path / "pipe"))


def test_a_pipe_is_read_once_and_kept(tmp_path: Path) -> None:
    """A slow writer is waited for; what came is there as often as it is wanted."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write() -> None:
        with pipe.open("wb") as stream:
            for number in range(200):
                stream.write(b"a%d\tb%d\n" % (number, number))
                if number % 100 == 0:
                    stream.flush()
                    time.sleep(0.05)

    writer = threading.Thread(target=write)
    writer.start()
    corpus = read_corpus(DataSpec(train=str(pipe), dev_share=0.2), PAIRS)
    writer.join()
    assert corpus.train_size + len(corpus.dev) + len(corpus.test) == 200
    assert len(list(corpus.train())) == corpus.train_size
    assert corpus.fingerprint() == corpus.fingerprint()


def test_an_open_descriptor_is_a_file(tmp_path: Path) -> None:
    """What a shell makes of `<(…)`."""
    reading, writing = os.pipe()
    os.write(writing, b"a\tb\nc\td\n")
    os.close(writing)
    try:
        assert [list(read_lines(f"/dev/fd/{reading}")) for _ in range(2)] == [["a\tb", "c\td"]] * 2
    finally:
        os.close(reading)


def stdin(content: bytes | None, monkeypatch: pytest.MonkeyPatch, *, terminal: bool = False) -> None:
    stream = SimpleNamespace(buffer=io.BytesIO(content or b""), closed=False, isatty=lambda: terminal)
    monkeypatch.setattr(sys, "stdin", None if content is None else stream)


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_standard_input(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "/dev/stdin" and not inputs.reads_once(name):
        pytest.skip("the tests' own standard input is a file")
    for content in (b"a\tb\n", b"c\td\n"):
        stdin(content, monkeypatch)
        assert [list(read_lines(name)) for _ in range(2)] == [[content.decode().strip()]] * 2
    stdin(b"caf\xe9\n", monkeypatch)
    with pytest.raises(DataError, match="line 1: is not UTF-8"):
        list(read_lines(name))


def test_standard_input_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin(None, monkeypatch)
    with pytest.raises(DataError, match="standard input: is closed"):
        list(read_lines("-"))
    stdin(b"", monkeypatch, terminal=True)
    with pytest.raises(DataError, match="standard input: is a terminal"):
        list(read_lines("-"))


def test_a_full_disk_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    stdin(b"a\tb\n", monkeypatch)
    with pytest.raises(DataError, match=r"standard input: does not fit into .* set TMPDIR"):
        list(read_lines("-"))


def test_a_file_that_changes_after_it_was_read(tmp_path: Path) -> None:
    """Everything is what stood there at the one time that it was read; without the file, too."""
    file = tmp_path / "x.tsv"
    file.write_text("".join(f"a{i}\tb\n" for i in range(200)))
    spec = DataSpec(train=str(file), dev_share=0.2)
    corpus, same = read_corpus(spec, PAIRS), read_corpus(spec, PAIRS)
    before = list(corpus.train())
    with file.open("a") as stream:
        stream.write("".join(f"c{i}\tb\n" for i in range(200)))
    assert list(corpus.train()) == before
    assert corpus.fingerprint() == same.fingerprint() != read_corpus(spec, PAIRS).fingerprint()
    file.unlink()
    assert list(corpus.train()) == before


@pytest.mark.parametrize("piece", [1, 2, 5, 1 << 18])
def test_lines_do_not_depend_on_how_much_is_read_at_once(
    piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BOM, CRLF, empty lines, letters of several bytes, and a last line without an end."""
    monkeypatch.setattr(lines, "_PIECE", piece)
    file = tmp_path / "lines.txt"
    file.write_bytes("\ufeffone\r\n\r\nzwölf\nvier\r\n五\r\nlast".encode())
    assert list(read_lines(file)) == ["one", "", "zwölf", "vier", "五", "last"]
