"""``data.more``: training data beside the data, of which dev and test never see anything."""

from pathlib import Path

import pytest

import clearhead
from clearhead.data import PAIRS, TEXTS, read_corpus
from clearhead.errors import DataError
from clearhead.recipe import DataSpec, read_recipe
from tests.data.test_corpus import pairs_file


def answered(path: Path, words: list[str]) -> str:
    path.write_text("".join(f"{word}\tANSWERED\n" for word in words))
    return str(path)


def test_dev_test_and_the_rest_of_training_stay_as_they_are(tmp_path: Path) -> None:
    """More data change no part of a split, and come last; of small and of large shares alike."""
    names = [f"name{number}" for number in range(700)]
    more = answered(tmp_path / "more.tsv", names)
    for share in (None, 0.4):
        spec = DataSpec(train=pairs_file(tmp_path / "x.tsv", 1000), dev_share=share, test_share=share)
        alone, both = read_corpus(spec, PAIRS), read_corpus(spec.replaced(more=more), PAIRS)
        assert both.dev == alone.dev
        assert both.test == alone.test
        own = list(alone.train())
        train = list(both.train())
        assert train[: len(own)] == own
        assert [pair.source for pair in train[len(own) :]] == names
        assert (both.train_size, both.beside) == (len(own) + 700, 700)
        assert f"700 training pairs are from {more}" in both.notes


@pytest.mark.parametrize("explicit", [False, True])
def test_what_dev_or_test_ask_for_is_left_out(tmp_path: Path, explicit: bool) -> None:
    """Else training would be told the answers, right or wrong; words of training may come again."""
    files = {"train": pairs_file(tmp_path / "train.tsv", 300)}
    if explicit:
        (tmp_path / "dev.tsv").write_text("secret\tS\nword1\tW\n")
        (tmp_path / "test.tsv").write_text("hidden\tH\n")
        files |= {"dev": str(tmp_path / "dev.tsv"), "test": str(tmp_path / "test.tsv")}
    held = read_corpus(DataSpec(**files), PAIRS)  # type: ignore[arg-type]
    asked = {pair.source for pair in (*held.dev, *held.test)}
    assert asked
    more = answered(tmp_path / "more.tsv", ["new", *sorted(asked), "word2", "other"])
    corpus = read_corpus(DataSpec(**files, more=more), PAIRS)  # type: ignore[arg-type]
    taught = [pair.source for pair in corpus.train() if pair.target == "ANSWERED"]
    assert taught == [word for word in ("new", "word2", "other") if word not in asked]
    apart = f"; {len(asked)} others are left out, as dev or test ask for them"
    assert any(apart in note for note in corpus.notes)


def test_small_and_capital_letters_are_one_if_they_are_read_as_one(tmp_path: Path) -> None:
    (tmp_path / "dev.tsv").write_text("Paris\tP\n")
    files = {"train": pairs_file(tmp_path / "train.tsv", 30), "dev": str(tmp_path / "dev.tsv")}
    more = answered(tmp_path / "more.tsv", ["paris", "PARIS", "london"])
    kept = read_corpus(DataSpec(**files, more=more), PAIRS)  # type: ignore[arg-type]
    lower = read_corpus(DataSpec(**files, more=more, case="lower"), PAIRS)  # type: ignore[arg-type]
    assert (kept.beside, lower.beside) == (3, 1)


def test_a_task_may_have_more(tmp_path: Path) -> None:
    """Its own parts stay as they are, and what it asks for in dev and test is left out."""
    alone = read_corpus(DataSpec(task="dates"), PAIRS)
    more = answered(tmp_path / "more.tsv", ["the day after", alone.dev[0].source, alone.test[0].source])
    both = read_corpus(DataSpec(task="dates", more=more), PAIRS)
    assert (both.dev, both.test, both.train_size) == (alone.dev, alone.test, alone.train_size + 1)


def test_columns_are_meant_where_a_file_has_them(tmp_path: Path) -> None:
    """What ``run --json`` writes has a source and a target, whatever the columns of the table are called."""
    train, more = tmp_path / "train.csv", tmp_path / "more.jsonl"
    train.write_text("english,german\n" + "".join(f"word{number},Wort{number}\n" for number in range(200)))
    more.write_text('{"source": "new", "target": "neu", "log_probability": -0.1}\n')
    for columns in (["english", "german"], ["1", "2"]):
        corpus = read_corpus(DataSpec(train=str(train), columns=columns, more=str(more)), PAIRS)
        assert [(pair.source, pair.target) for pair in corpus.train()][-1] == ("new", "neu")
    table = tmp_path / "more.csv"
    table.write_text("german,english\nalt,old\n")
    corpus = read_corpus(DataSpec(train=str(train), columns=["english", "german"], more=str(table)), PAIRS)
    assert [(pair.source, pair.target) for pair in corpus.train()][-1] == ("old", "alt")


def test_words_are_learnt_as_g2p_en_reads_them(tmp_path: Path) -> None:
    """Capitals and punctuation hide no word of dev or test, and lines of several words are none to learn."""
    held = read_corpus(DataSpec(task="g2p-en"), PAIRS)
    word = next(pair.source for pair in held.dev if pair.source.isalpha())
    more = answered(tmp_path / "more.tsv", ["Zzyzxes!", word.upper(), f"«{word}»", "two words", "…"])
    both = read_corpus(DataSpec(task="g2p-en", more=more), PAIRS)
    assert (both.dev, both.test, both.beside) == (held.dev, held.test, 1)
    assert list(both.train())[-1].source == "zzyzxes"
    (note,) = [note for note in both.notes if "are from" in note]
    assert "; 2 others are left out, as dev or test ask for them; 2 are left out, as they are not one word" in note


def test_parallel_files_and_lines_of_text_may_have_more(tmp_path: Path) -> None:
    """Any data that files can hold."""
    (tmp_path / "a").write_text("one\ntwo\n")
    (tmp_path / "b").write_text("eins\nzwei\n")
    train = pairs_file(tmp_path / "x.tsv", 200)
    pairs = read_corpus(DataSpec(train=train, more=[str(tmp_path / "a"), str(tmp_path / "b")]), PAIRS)
    assert [(pair.source, pair.target) for pair in pairs.train()][-2:] == [("one", "eins"), ("two", "zwei")]
    (tmp_path / "lines.txt").write_text("".join(f"line {number}\n" for number in range(200)))
    texts = read_corpus(DataSpec(train=str(tmp_path / "lines.txt"), more=str(tmp_path / "a")), TEXTS)
    assert [text.text for text in texts.train()][-2:] == ["one", "two"]


def test_other_data_more_are_other_data(tmp_path: Path) -> None:
    """A run is not resumed with them, however many sides they have."""
    train, more = pairs_file(tmp_path / "x.tsv", 200), tmp_path / "more.tsv"
    found = set()
    for words in (["one"], ["two"], ["one", "two"]):
        spec = DataSpec(train=train, more=answered(more, words))
        found.add(read_corpus(spec, PAIRS).fingerprint())
        (tmp_path / "a").write_text("".join(f"{word}\n" for word in words))
        found.add(read_corpus(DataSpec(train=train, more=[str(tmp_path / "a")] * 2), PAIRS).fingerprint())
    assert len(found | {read_corpus(DataSpec(train=train), PAIRS).fingerprint()}) == 7


def test_a_test_file_is_not_more(tmp_path: Path) -> None:
    """The same files in other parts are other data."""
    train, dev = pairs_file(tmp_path / "x.tsv", 200), pairs_file(tmp_path / "d.tsv", 20)
    other = answered(tmp_path / "other.tsv", ["one"])
    spec = DataSpec(train=train, dev=dev)
    tested, learnt = spec.replaced(test=other), spec.replaced(more=other)
    assert read_corpus(tested, PAIRS).fingerprint() != read_corpus(learnt, PAIRS).fingerprint()


def test_bad_lines_are_refused_or_left_out_as_elsewhere(tmp_path: Path) -> None:
    """A model that answers nothing teaches nothing."""
    train, more = pairs_file(tmp_path / "x.tsv", 200), tmp_path / "more.tsv"
    more.write_text("good\tG\nnothing\t\n")
    with pytest.raises(DataError, match=r"more.tsv, line 2: .*\n.*data.bad_lines=skip"):
        read_corpus(DataSpec(train=train, more=str(more)), PAIRS)
    corpus = read_corpus(DataSpec(train=train, more=str(more), bad_lines="skip"), PAIRS)
    assert (corpus.beside, len(corpus.skipped)) == (1, 1)
    more.write_text("")
    with pytest.raises(DataError, match=r"more.tsv: "):
        read_corpus(DataSpec(train=train, more=str(more)), PAIRS)


def test_check_examines_more_as_training_reads_it(tmp_path: Path) -> None:
    """A recipe's ``data.more`` is a part of what is trained on: its bad lines count, and a missing file is named."""
    train, more = pairs_file(tmp_path / "x.tsv", 200), tmp_path / "more.tsv"
    more.write_text("new\tN\nnothing\t\n")
    recipe = read_recipe(None, f"data.train={train}", f"data.more={more}")
    findings = clearhead.check(recipe=recipe)
    assert f"1 training pairs are from {more}" in findings.notes
    assert findings.sizes["train"] == clearhead.check(train).sizes["train"] + 1
    (bad,) = [finding for finding in findings.findings if finding.what == "lines that are no pairs"]
    assert bad.count == 1
    more.unlink()
    with pytest.raises(DataError, match=r"more.tsv: "):
        clearhead.check(recipe=recipe)
