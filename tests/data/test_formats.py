"""Readers: every format, every way of being wrong, with file, line and byte; nothing is dropped silently."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from clearhead.data import PAIRS, Pair, read_lines
from clearhead.errors import ClearheadError, DataError
from tests.thorough import drawn


def write(path: Path, content: bytes) -> str:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return str(path)


@pytest.mark.parametrize("suffix", [".tsv", ".tsv.gz"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_tsv(tmp_path: Path, suffix: str, end: bytes, bom: bytes) -> None:
    file = write(tmp_path / f"pairs{suffix}", bom + "Häuser\thouses".encode() + end + b"a b\tc d" + end)
    pairs, skipped = PAIRS.read(file)
    assert pairs == [Pair("Häuser", "houses", 1), Pair("a b", "c d", 2)]
    assert not len(skipped)


def test_jsonl_with_other_fields(tmp_path: Path) -> None:
    rows = [{"source": "a", "target": "b", "id": 7}, {"target": "d", "source": "c"}]
    file = write(tmp_path / "pairs.jsonl", "\n".join(map(json.dumps, rows)).encode())
    assert [(pair.source, pair.target) for pair in PAIRS.read(file)[0]] == [("a", "b"), ("c", "d")]


def test_parallel_files(tmp_path: Path) -> None:
    files = [write(tmp_path / "a.en", b"one\ntwo\n"), write(tmp_path / "a.de.gz", b"eins\nzwei\n")]
    assert [(pair.source, pair.target) for pair in PAIRS.read(files)[0]] == [("one", "eins"), ("two", "zwei")]
    short = [files[0], write(tmp_path / "b.de", b"eins\n")]
    with pytest.raises(DataError, match=r"a\.en has 2 lines, .*b\.de has 1: parallel files must have as many lines"):
        PAIRS.read(short)


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    """Unicode has other separators; they are text."""
    file = write(tmp_path / "x.tsv", "a\u2028b\tc\x0bd\x85\n".encode())
    assert list(read_lines(file)) == ["a\u2028b\tc\x0bd\x85"]


def test_bad_bytes_are_named_with_file_line_and_byte(tmp_path: Path) -> None:
    file = write(tmp_path / "x.tsv", b"a\tb\ncaf\xe9\tc\n")
    with pytest.raises(DataError, match=r"x\.tsv, line 2: is not UTF-8 \(byte 4 of the line is 0xe9\)"):
        PAIRS.read(file)
    torn = tmp_path / "x.tsv.gz"
    torn.write_bytes(gzip.compress(b"a\tb\n" * 1000)[:-20])
    with pytest.raises(DataError, match=r"x\.tsv\.gz: is not a whole gzip file"):
        PAIRS.read(str(torn))
    with pytest.raises(DataError, match="cannot be read: No such file"):
        PAIRS.read(str(tmp_path / "nowhere.tsv"))


BAD = b"a\tb\n\tonly target\nonly source\t \n\none column\na\tb\tc\n"


def test_bad_lines_are_refused_with_their_numbers(tmp_path: Path) -> None:
    file = write(tmp_path / "x.tsv", BAD)
    with pytest.raises(DataError) as caught:
        PAIRS.read(file)
    assert str(caught.value).splitlines() == [
        f"{file}, line 2: empty source",
        f"{file}, line 3: empty target",
        f"{file}, line 4: empty line",
        f"{file}, line 5: 1 columns between tabs instead of 2",
        f"{file}, line 6: 3 columns between tabs instead of 2",
        "fix these lines, or leave them out with data.bad_lines=skip",
    ]


def test_bad_lines_are_skipped_and_counted(tmp_path: Path) -> None:
    pairs, skipped = PAIRS.read(write(tmp_path / "x.tsv", BAD), "skip")
    assert [pair.line for pair in pairs] == [1]
    assert len(skipped) == 5
    assert "5 lines left out (1 × empty source" in str(skipped)
    many = write(tmp_path / "many.tsv", b"bad\n" * 100 + b"a\tb\n")
    with pytest.raises(DataError, match="… and 90 more"):
        PAIRS.read(many)


def test_json_lines_that_are_no_pairs(tmp_path: Path) -> None:
    lines = ["{", "[]", '{"source": "a"}', '{"source": 1, "target": "b"}', '{"source": "\\ud800", "target": "b"}']
    found = list(PAIRS.scan(write(tmp_path / "x.jsonl", "\n".join(lines).encode())))
    assert [str(item).rpartition(": ")[2] for item in found] == [
        "not JSON",
        'no texts "source" and "target"',
        'no texts "source" and "target"',
        'no texts "source" and "target"',
        "an unpaired surrogate, which is no text",
    ]


def test_an_empty_file_has_no_pairs(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no pairs inside"):
        PAIRS.read(write(tmp_path / "x.tsv", b""))


@given(content=st.binary(max_size=300), suffix=st.sampled_from([".tsv", ".jsonl", ".tsv.gz", ".jsonl.gz"]))
@drawn(200, 5000, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_readers_only_ever_raise_our_errors(tmp_path: Path, content: bytes, suffix: str) -> None:
    """Fuzz: a file of anything, also one that only claims to be gzipped."""
    file = tmp_path / f"fuzz{suffix}"
    file.write_bytes(content)
    try:
        for item in PAIRS.scan(str(file)):
            assert str(item)
    except ClearheadError as error:
        assert "fuzz" in str(error)


@given(text=st.text(st.characters(codec="utf-8"), max_size=200))
@drawn(150, 5000, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_line_is_accounted_for(tmp_path: Path, text: str) -> None:
    """Fuzz: pairs and bad lines together are all the lines of the file."""
    file = tmp_path / "fuzz.tsv"
    file.write_bytes(text.encode())
    content = text.encode().removeprefix(b"\xef\xbb\xbf")
    lines = content.count(b"\n") + (not content.endswith(b"\n") and bool(file.read_bytes()))
    assert len(list(PAIRS.scan(str(file)))) == lines
