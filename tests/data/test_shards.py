"""Training data in several files, and in Parquet and Arrow files: the same examples as in one file of text."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.data import PAIRS, read_corpus
from clearhead.errors import DataError
from clearhead.recipe import DataSpec
from tests.training.toy import SMALL

pyarrow: Any = pytest.importorskip("pyarrow", reason='needs the extra parquet: pip install "clearhead[parquet]"')
PAIRS_OF = [(f"wört {number} \u2028 x", f"W{number % 7} n") for number in range(300)]


def write(folder: Path, kind: str) -> str:
    """The pairs in three files; returns the pattern."""
    from pyarrow import feather, parquet

    folder.mkdir()
    for number in range(3):
        rows, file = PAIRS_OF[100 * number : 100 * (number + 1)], folder / f"part-{number}.{kind}"
        table = pyarrow.table({"n": range(100), "src": [a for a, _ in rows], "tgt": [b for _, b in rows]})
        text = "".join(f"{a}\t{b}\n" for a, b in rows)
        if kind == "parquet":
            parquet.write_table(table, file, row_group_size=30)
        elif kind == "arrow":
            feather.write_feather(table, str(file), compression="uncompressed")
        elif kind == "tsv.gz":
            file.write_bytes(gzip.compress(text.encode()))
        elif kind == "csv":
            file.write_text("src,tgt\n" + "".join(f'"{a}",{b}\n' for a, b in rows))
        elif kind == "jsonl":
            file.write_text("".join(json.dumps({"source": a, "target": b}) + "\n" for a, b in rows))
        else:
            file.write_text(text)
    return str(folder / f"*.{kind}")


@pytest.mark.parametrize("kind", ["parquet", "arrow", "tsv", "tsv.gz", "csv", "jsonl"])
def test_shards_hold_the_examples_of_one_file(tmp_path: Path, kind: str) -> None:
    whole = tmp_path / "whole.tsv"
    whole.write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS_OF))
    expected = read_corpus(DataSpec(train=str(whole)), PAIRS)
    found = read_corpus(DataSpec(train=write(tmp_path / "shards", kind)), PAIRS)
    assert [(p.source, p.target) for p in found.train()] == [(p.source, p.target) for p in expected.train()]
    assert [(p.source, p.target) for p in found.dev] == [(p.source, p.target) for p in expected.dev]
    assert len({pair.line for pair in found.train()}) == found.train_size
    assert any("3 files" in note for note in found.notes)


def test_another_file_makes_other_data(tmp_path: Path) -> None:
    spec = DataSpec(train=write(tmp_path / "shards", "parquet"))
    before = read_corpus(spec, PAIRS).fingerprint()
    assert read_corpus(spec, PAIRS).fingerprint() == before
    (tmp_path / "shards" / "part-1.parquet").rename(tmp_path / "shards" / "part-9.parquet")
    assert read_corpus(spec, PAIRS).fingerprint() != before


def test_a_bad_row_is_named_by_its_own_file(tmp_path: Path) -> None:
    from pyarrow import parquet

    pattern = write(tmp_path / "shards", "parquet")
    parquet.write_table(
        pyarrow.table({"source": ["a", None, " "], "target": ["b"] * 3}), tmp_path / "shards" / "part-5.parquet"
    )
    with pytest.raises(DataError) as error:
        read_corpus(DataSpec(train=pattern), PAIRS)
    named = [line.rpartition("/")[2] for line in str(error.value).splitlines()[:2]]
    assert named == ["part-5.parquet, line 2: no text source", "part-5.parquet, line 3: empty source"]
    skipping = read_corpus(DataSpec(train=pattern, bad_lines="skip"), PAIRS)
    assert skipping.train_size + len(skipping.dev) + len(skipping.test) == 301


@pytest.mark.parametrize(
    ("columns", "message"),
    [(["english", "tgt"], "has no column english: its columns are n, src, tgt"), (["2", "4"], "has 3 columns")],
)
def test_columns_that_are_not_there_are_refused(tmp_path: Path, columns: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_corpus(DataSpec(train=write(tmp_path / "shards", "parquet"), columns=columns), PAIRS)


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    for name in ("x.parquet", "x.arrow"):
        (tmp_path / name).write_text("a\tb\n")
        with pytest.raises(DataError, match="is not a whole"):
            read_corpus(DataSpec(train=str(tmp_path / name)), PAIRS)


def test_a_run_is_trained_on_a_pattern_and_resumed(tmp_path: Path) -> None:
    """Its recipe keeps the pattern; a file more is another corpus, and is refused."""
    pattern = write(tmp_path / "shards", "parquet")
    run = clearhead.train(pattern, tmp_path / "run", steps=2, settings=SMALL)
    assert run.recipe.data.train == pattern
    clearhead.train(output=tmp_path / "run", steps=3, resume=True)
    (tmp_path / "shards" / "part-7.parquet").write_bytes((tmp_path / "shards" / "part-0.parquet").read_bytes())
    with pytest.raises(clearhead.DataError, match="the data have changed"):
        clearhead.train(output=tmp_path / "run", steps=4, resume=True)


def test_a_header_in_a_later_file_is_noted(tmp_path: Path) -> None:
    """The first file says nothing of it: line 1 of the second is left out, and its owner should know."""
    for number, header in enumerate(("", "source\ttarget\n", "source\ttarget\n", "")):
        rows = PAIRS_OF[60 * number : 60 * (number + 1)]
        (tmp_path / f"part-{number}.tsv").write_text(header + "".join(f"{a}\t{b}\n" for a, b in rows))
    notes = read_corpus(DataSpec(train=str(tmp_path / "*.tsv")), PAIRS).notes
    assert [note for note in notes if "begins with a header" in note] == [
        f"{tmp_path}/part-1.tsv: begins with a header, too, and so do 1 of the files after it"
    ]
    for number in (1, 2):
        (tmp_path / f"part-{number}.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS_OF[:60]))
    assert not any(
        "begins with a header" in note for note in read_corpus(DataSpec(train=str(tmp_path / "*.tsv")), PAIRS).notes
    )


def test_two_patterns_name_parallel_files(tmp_path: Path) -> None:
    """Those of either side in the order of their names; the same examples, lines counted through, as from one file."""
    whole = tmp_path / "whole.tsv"
    whole.write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS_OF))
    for number in range(3):
        rows = PAIRS_OF[100 * number : 100 * (number + 1)]
        for side, name in enumerate(("de", "en")):
            (tmp_path / f"part-{number}.{name}").write_text("".join(f"{pair[side]}\n" for pair in rows))
    spec = DataSpec(train=[str(tmp_path / "*.de"), str(tmp_path / "*.en")])
    expected, found = read_corpus(DataSpec(train=str(whole)), PAIRS), read_corpus(spec, PAIRS)
    assert list(found.train()) == list(expected.train())
    assert found.dev == expected.dev
    assert any("3 files" in note for note in found.notes)
    assert read_corpus(spec, PAIRS).fingerprint() == found.fingerprint()
    (tmp_path / "part-2.en").unlink()
    with pytest.raises(DataError, match=r"names 3 files, and .* 2: each needs its counterpart"):
        read_corpus(spec, PAIRS)
