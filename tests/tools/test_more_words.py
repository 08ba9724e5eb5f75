"""Words to learn beside the dictionary: none of them is in train, dev or test."""

from pathlib import Path

from tools.more_words import LEAST_SURE, MOST_WORDS, chosen, parts_of, sure

LETTERS = set("abcdefghijklmnopqrstuvwxyz'")


def test_no_word_of_train_dev_or_test_is_answered() -> None:
    """What is known in any part would be learnt twice, or would tell the answer to a question of the test."""
    found = chosen(["smith", "sztuka"], ["cabbage", "smith's", "zebra"], {"smith", "zebra"}, LETTERS)
    assert found == ["sztuka", "cabbage", "smith's"]


def test_words_are_drawn_the_same_way_again() -> None:
    """The words are a function of the lists: their order does not matter, and a name is not taken twice."""
    words = [first + second + third for first in "abcdefgh" for second in "aeiou" for third in "klmn"]
    found = chosen(["bak", "hun"], words, set(), LETTERS)
    assert found == chosen(["hun", "bak"], words[::-1], set(), LETTERS)
    assert found[:2] == ["bak", "hun"]
    assert sorted(found) == sorted(words)
    assert len(found) <= MOST_WORDS


def test_another_seed_draws_other_words_and_no_more_than_asked() -> None:
    """A second teacher need not answer what the first one did; names are taken whole."""
    words = [first + second + third for first in "abcdefgh" for second in "aeiou" for third in "klmn"]
    one, other = (chosen(["zoe"], words, set(), LETTERS, most=20, seed=seed) for seed in (2, 3))
    assert len(one) == len(other) == 21
    assert one[0] == other[0] == "zoe"
    assert set(one) != set(other)


def test_strange_letters_and_lengths_are_left_out() -> None:
    """A model has no token for a letter that training does not have."""
    assert chosen(["o", "a" * 19, "josé", "x-ray"], [], set(), LETTERS) == []


def test_only_sure_and_whole_answers_are_learnt() -> None:
    """The mean of log p counts, over the phones and the end."""
    answer = {"target": "K AE T", "log_probability": 4 * LEAST_SURE + 0.01, "finished": True}
    assert sure(answer)
    assert not sure(answer | {"log_probability": 4 * LEAST_SURE - 0.01})
    assert not sure(answer | {"finished": False})
    assert not sure(answer | {"target": "", "log_probability": 0.0})


def test_files_give_the_parts(tmp_path: Path) -> None:
    """Three files are train, dev and test, in this order."""
    files = [tmp_path / name for name in ("a.tsv", "b.tsv", "c.tsv")]
    for number, file in enumerate(files):
        file.write_text(f"c a t {number}\tK AE T\n", encoding="utf-8")
    parts = parts_of("no model is needed", files)
    assert parts == {
        "train": [("c a t 0", "K AE T")],
        "dev": [("c a t 1", "K AE T")],
        "test": [("c a t 2", "K AE T")],
    }
