"""What a file looks like: CSV, headers, columns by name and number, and words for those whose file fits nothing."""

import gzip
import json
from pathlib import Path

import pytest

from clearhead.data import LABELS, PAIRS, TEXTS, BadLine, Pair, layout_of, named_family, read_corpus
from clearhead.data.layout import named_columns
from clearhead.data.rows import OneFile
from clearhead.errors import DataError, RecipeError
from clearhead.recipe import DataSpec, read_recipe


def write(path: Path, text: str) -> str:
    content = text.encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return str(path)


def sides(file: str, *columns: str) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in PAIRS.selecting(columns or None).read(file)[0]]


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz", "X.CSV"])
@pytest.mark.parametrize("mark", [",", ";"])
def test_csv(tmp_path: Path, name: str, mark: str) -> None:
    """RFC 4180: quotes, doubled quotes, the delimiter inside a cell."""
    rows = [["one", 'say ""hi""'], [f"a{mark} b", "c"]]
    text = "".join(mark.join(f'"{cell}"' for cell in row) + "\r\n" for row in rows)
    assert sides(write(tmp_path / name, text)) == [("one", 'say "hi"'), (f"a{mark} b", "c")]


@pytest.mark.parametrize(
    ("name", "header"), [("x.csv", "source,target"), ("x.csv", "Src;Tgt"), ("x.tsv", "source\ttarget")]
)
def test_a_header_is_no_example_and_is_mentioned(tmp_path: Path, name: str, header: str) -> None:
    mark = next(mark for mark in "\t;," if mark in header)
    file = write(tmp_path / name, f"{header}\na{mark}b\n")
    assert PAIRS.read(file)[0] == [Pair("a", "b", 2)]
    (note,) = PAIRS.notes(file)
    assert "line 1 is taken as a header" in note


def test_columns_are_found_by_name_whatever_stands_between(tmp_path: Path) -> None:
    file = write(tmp_path / "x.csv", "id,target,note,source\n1,B,x,a\n2,D,y,c\n")
    assert sides(file) == [("a", "B"), ("c", "D")]
    assert "2 others are not read" in PAIRS.notes(file)[0]
    assert sides(file, "id", "note") == [("1", "x"), ("2", "y")]
    with pytest.raises(DataError, match="no column sorce; did you mean source"):
        sides(file, "sorce", "target")
    reverse = write(tmp_path / "y.tsv", "text\tlabel\nfine day\tgood\n")
    assert [(item.label, item.text) for item in LABELS.read(reverse)[0]] == [("good", "fine day")]


def test_columns_by_number_take_no_header(tmp_path: Path) -> None:
    file = write(tmp_path / "x.tsv", "source\tx\ttarget\na\ty\tb\n")
    assert sides(file, "1", "3") == [("source", "target"), ("a", "b")]
    short = write(tmp_path / "y.tsv", "a\tb\tc\na\tb\n")
    (_, bad) = PAIRS.selecting(["1", "3"]).scan(short)
    assert str(bad).endswith("line 2: 2 columns between tabs, and column 3 is asked for")


def test_fields_of_json_by_name(tmp_path: Path) -> None:
    rows = [{"en": "a", "de": "b"}, {"en": "c", "de": "d"}]
    file = write(tmp_path / "x.jsonl", "\n".join(map(json.dumps, rows)))
    assert sides(file, "de", "en") == [("b", "a"), ("d", "c")]
    usual = write(tmp_path / "y.jsonl", '{"src": "a", "tgt": "b"}\n')
    assert sides(usual) == [("a", "b")]
    assert "src (source) and tgt (target)" in PAIRS.notes(usual)[0]


def test_a_cell_over_several_lines_keeps_line_numbers_right(tmp_path: Path) -> None:
    """Breaks and tabs inside a cell are spaces; the next record says where it begins."""
    file = write(tmp_path / "x.csv", 'source,target\n"a\nb","c\td"\nx,y\nlonely\n')
    found = list(PAIRS.scan(file))
    assert found[:2] == [Pair("a b", "c d", 2), Pair("x", "y", 4)]
    assert str(found[2]).endswith("x.csv, line 5: 1 columns between commas instead of 2")


def test_quotes_that_do_not_fit_are_a_bad_line(tmp_path: Path) -> None:
    file = write(tmp_path / "x.csv", 'a,b\n"c"d,e\nf,g\n"never,closed\nx,y\n')
    bad = [item for item in PAIRS.scan(file) if isinstance(item, BadLine)]
    assert [item.line for item in bad] == [2, 4]
    assert "over lines 4 to 5" in str(bad[1])
    assert len([item for item in PAIRS.scan(file) if isinstance(item, Pair)]) == 2


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.csv", "id,english,german\n1,a,b\n", ["CSV with 3 columns between commas", "--columns english,german"]),
        ("x.tsv", "1\ta\tb\n2\tc\td\n", ["TSV with 3 columns between tabs", "line 1: 1\ta\tb", "--columns 1,2"]),
        ("x.jsonl", '{"en": "a", "de": "b"}\n', ["JSONL with the fields en, de", "--columns en,de"]),
        ("x.jsonl", '{"text": "a", "label": "b"}\n', ["add model.family=classifier"]),
        ("x.json", '[\n{"source": "a"}\n]\n', ["one JSON list", "jq -c"]),
        ("x.tsv", "a,b\nc,d\n", ["2 columns between commas", "rename it to something.csv"]),
        ("x.tsv", "just some text\nand more\n", ["one column, no tabs", "model.family=lm", "--src FILE"]),
        ("x.tsv", "", ["is empty"]),
        ("x.tsv", "\ufeff", ["blank line"]),
        ("x.tsv", "\n\n \n", ["3 blank lines"]),
        ("x.tsv", "a\tb\rc\td\r", ["CR alone, as on old Macs", "tr '\\r' '\\n'"]),
        ("x.csv", "a,b\rc,d\r", ["CR alone"]),
    ],
)
def test_a_file_without_pairs_is_explained(tmp_path: Path, name: str, content: str, words: list[str]) -> None:
    file = write(tmp_path / name, content)
    for bad_lines in ("refuse", "skip"):
        with pytest.raises(DataError) as caught:
            read_corpus(DataSpec(train=file, bad_lines=bad_lines), PAIRS)
        for word in ("no pairs inside", *words):
            assert word in str(caught.value)


def test_likely_labels_are_mentioned(tmp_path: Path) -> None:
    rows = [f"{'pos' if i % 2 else 'neg'}\ttext {i}" for i in range(100)]
    with pytest.raises(DataError, match=r"only 2 different sources \(neg, pos …\): .* add model\.family=classifier"):
        read_corpus(DataSpec(train=write(tmp_path / "x.tsv", "\n".join(rows))), PAIRS)
    turned = write(tmp_path / "y.tsv", "\n".join("\t".join(reversed(row.split("\t"))) for row in rows))
    (note,) = read_corpus(DataSpec(train=turned, dev_share=0.2), PAIRS).notes
    assert "add model.family=classifier --columns 2,1" in note
    plain = write(tmp_path / "z.tsv", "\n".join(f"word {i}\tW {i}" for i in range(100)))
    assert not read_corpus(DataSpec(train=plain, dev_share=0.2), PAIRS).notes


def test_the_family_that_a_file_speaks_for(tmp_path: Path) -> None:
    cases = {"text,label": "classifier", "source,target": None, "id,text": "lm", "a,b": None}
    for header, family in cases.items():
        assert named_family(write(tmp_path / "x.csv", f"{header}\n1,2\n")) == family


def test_plain_lines_stay_whole(tmp_path: Path) -> None:
    """Text has no columns unless they are asked for, or the file is CSV."""
    file = write(tmp_path / "x.tsv", "text\tmore\na\tb\n")
    assert [item.text for item in TEXTS.read(file)[0]] == ["text\tmore", "a\tb"]
    assert [item.text for item in TEXTS.selecting(["more"]).read(file)[0]] == ["b"]
    assert layout_of(write(tmp_path / "y.csv", "id,text\n1,a\n"), ("text",)).places == (1,)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("data.columns=[]", "a list"),
        ("data.columns=[a]", "a list"),
        ('data.columns=["a"]', "learns from two columns"),
        ('data.columns=["a", "1"]', "all by name, or all by number"),
        ("data.columns=[0, 1]", "counted from 1"),
        ('data.columns=["a", "A"]', "only once"),
    ],
)
def test_columns_that_make_no_sense(setting: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        read_recipe(None, setting)


def test_columns_are_part_of_the_recipe(tmp_path: Path) -> None:
    assert read_recipe(None, "data.columns=[1, 3]").data.columns == ["1", "3"]
    file = write(tmp_path / "x.tsv", "".join(f"a{i}\tx{i}\tb{i}\n" for i in range(200)))
    one, other = (read_corpus(DataSpec(train=file, columns=columns), PAIRS) for columns in (["1", "3"], ["1", "2"]))
    assert next(one.train()).target.startswith("b")
    assert one.fingerprint() != other.fingerprint()


def test_a_header_that_names_a_column_twice_names_none() -> None:
    """Both could be meant, so that none is taken; a column's own name goes before usual ones."""
    assert named_columns(["src", "target"], ("source", "target")) == (0, 1)
    assert named_columns(["src", "input", "target"], ("source", "target")) is None
    assert named_columns(["src", "source", "target"], ("source", "target")) == (1, 2)
    assert named_columns(["target", "target", "source"], ("source", "target")) is None


def test_labels_may_be_numbers_in_json(tmp_path: Path) -> None:
    """0 among them; a number is no text, and true is no number."""
    rows = [{"label": 0, "text": "a"}, {"label": 7, "text": "b"}, {"label": True, "text": "c"}, {"label": 1, "text": 2}]
    file = write(tmp_path / "labels.jsonl", "\n".join(map(json.dumps, rows)))
    found = [row.found for row in OneFile(str(file), ("label", "text"), None)]
    assert found[:2] == [["0", "a"], ["7", "b"]]
    assert all(isinstance(problem, str) for problem in found[2:])
