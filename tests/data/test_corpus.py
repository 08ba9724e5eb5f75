"""Splits: explicit, or by a stable hash of the source; built-in tasks; the data doctor."""

from pathlib import Path

import pytest

from clearhead.data import PAIRS, check, check_corpus, lines, read_corpus
from clearhead.errors import DataError
from clearhead.recipe import DataSpec


def pairs_file(path: Path, count: int, alternatives: int = 1) -> str:
    rows = [f"word{i}\tW {i % 7} {k}" for i in range(count) for k in range(alternatives)]
    path.write_text("\n".join(rows) + "\n")
    return str(path)


def test_a_split_keeps_alternatives_together(tmp_path: Path) -> None:
    corpus = read_corpus(DataSpec(train=pairs_file(tmp_path / "x.tsv", 1000, alternatives=2)), PAIRS)
    parts = [{pair.source for pair in part} for part in (corpus.train(), corpus.dev, corpus.test)]
    assert sum(map(len, parts)) == 1000
    assert not parts[0] & parts[1] | parts[0] & parts[2] | parts[1] & parts[2]
    assert 30 < len(parts[1]) < 75
    assert 30 < len(parts[2]) < 75
    assert corpus.train_size == 2 * len(parts[0])


def test_a_pair_stays_where_it_is_as_the_data_grow(tmp_path: Path) -> None:
    spec = {"dev_share": 0.1, "test_share": 0.1}
    small = read_corpus(DataSpec(train=pairs_file(tmp_path / "a.tsv", 500), **spec), PAIRS)  # type: ignore[arg-type]
    large = read_corpus(DataSpec(train=pairs_file(tmp_path / "b.tsv", 900), **spec), PAIRS)  # type: ignore[arg-type]
    assert {pair.source for pair in small.dev} <= {pair.source for pair in large.dev}
    assert {pair.source for pair in small.test} <= {pair.source for pair in large.test}


def test_explicit_files_are_taken_as_they_are(tmp_path: Path) -> None:
    files = {
        name: pairs_file(tmp_path / f"{name}.tsv", size) for name, size in (("train", 30), ("dev", 5), ("test", 4))
    }
    corpus = read_corpus(DataSpec(**files), PAIRS)  # type: ignore[arg-type]
    assert (corpus.train_size, len(corpus.dev), len(corpus.test)) == (30, 5, 4)
    without_test = read_corpus(DataSpec(train=files["train"], dev=files["dev"]), PAIRS)
    assert (without_test.train_size, len(without_test.test)) == (30, 0)


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    spec = DataSpec(train=pairs_file(tmp_path / "x.tsv", 400))
    before = read_corpus(spec, PAIRS).fingerprint()
    assert read_corpus(spec, PAIRS).fingerprint() == before
    pairs_file(tmp_path / "x.tsv", 401)
    assert read_corpus(spec, PAIRS).fingerprint() != before


def test_nothing_to_train_on(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nothing to train on"):
        read_corpus(DataSpec(), PAIRS)
    with pytest.raises(DataError, match="2 pairs are too few to set some aside for dev"):
        read_corpus(DataSpec(train=pairs_file(tmp_path / "x.tsv", 2)), PAIRS)


def test_the_task_g2p_en() -> None:
    """English words and phones: no stress by default, alternatives on the same side of every split."""
    corpus = read_corpus(DataSpec(task="g2p-en"), PAIRS)
    train = list(corpus.train())
    assert corpus.train_size > 120_000
    assert not any(character.isdigit() for pair in train for character in pair.target)
    assert not any("(" in pair.source for pair in train)
    known = {pair.source for pair in train}
    assert not known & {pair.source for pair in corpus.dev + corpus.test}
    assert {pair.target for pair in train if pair.source == "tomato"} == {"T AH M EY T OW", "T AH M AA T OW"}
    assert any(
        character.isdigit()
        for pair in read_corpus(DataSpec(task="g2p-en", stress=True), PAIRS).dev
        for character in pair.target
    )


def test_the_doctor_samples_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens of one pair in four are counted; what is too long, stands there twice or leaks is found in all of them."""
    train, dev = tmp_path / "train.tsv", tmp_path / "dev.tsv"
    rows = [f"word {i}\tW {i}" for i in range(398)]
    rows[101] = "long " * 300 + "\tW"
    train.write_text("\n".join([*rows, rows[5], rows[7]]))
    dev.write_text(f"{rows[102]}\nnew one\tW\n")
    monkeypatch.setattr(lines, "_PIECE", 1 << 9)
    corpus = read_corpus(DataSpec(train=str(train), dev=str(dev)), PAIRS)
    whole = check_corpus(corpus)
    assert not whole.notes
    monkeypatch.setattr(check, "SAMPLE", 100)
    sampled = check_corpus(corpus)
    assert "those of one in 4 pairs" in sampled.notes[0]
    assert sampled.sides["source"].lengths.total() == 100
    assert [finding.count for finding in sampled.findings] == [finding.count for finding in whole.findings]
    monkeypatch.setattr(check, "REMEMBERED", 200)
    assert "counted in one of 2 pairs" in check_corpus(corpus).notes[1]


def test_the_doctor_finds_what_is_wrong(tmp_path: Path) -> None:
    train, dev = tmp_path / "train.tsv", tmp_path / "dev.tsv"
    rows = [f"s o u r c e {chr(97 + i % 26)}\tT A R {i % 9}" for i in range(200)]
    rows += ["x y z\tx y z", "a b\t" + "T " * 60, "no tab", rows[0], "leak ed\tT A"]
    train.write_text("\n".join(rows))
    dev.write_text("leak ed\tT A\nu n k n o w n ß\tT A R\n")
    checkup = check_corpus(read_corpus(DataSpec(train=str(train), dev=str(dev), bad_lines="skip"), PAIRS))
    counts = {finding.what: finding.count for finding in checkup.findings}
    assert counts["lines that are no pairs"] == 1
    assert counts["dev sources that stand in train too"] == 1
    assert counts["pairs whose sides are identical"] == 1
    assert counts["pairs that stand there twice"] >= 1
    assert counts["pairs with one side 9 times as long as the other"] == 1
    assert not checkup.healthy
    assert [side.kind for side in checkup.sides.values()] == ["symbols", "symbols"]
    assert checkup.unknown["dev"] > 0
    assert checkup.lost["dev"] > 0
    clean = check_corpus(read_corpus(DataSpec(train=pairs_file(tmp_path / "clean.tsv", 400)), PAIRS))
    assert clean.healthy
