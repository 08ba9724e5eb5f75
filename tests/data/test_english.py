"""English text becomes words as the CMU dictionary spells them; its own words stay as they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data import pronunciations, read_english


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Naïve café: «Don’t pay 1,200!»", "naive cafe don't pay one thousand two hundred"),
        ("Hello.", "hello"),
        ("Mr. Smith's dogs' 'quoted' words.", "mr. smith's dogs' quoted words"),
        ("the U.S. and its 7% – well-known!", "the u.s. and its seven percent well-known"),
        ("'tis rockin' & 'well done'", "'tis rockin' and well done"),
        ("ÆSIR, Straße, Łódź", "aesir strasse lodz"),
        ("He put it in.", "he put it in"),
        ("in.", "in."),
        ("x2y", "x two y"),
        ("``the dogs''", "the dogs"),
        ("the 'course' of 'course", "the course of 'course"),
        ("--'''dogs'.'-- .mr.. u.s.'", "dogs mr. u.s."),
        ("the 3rd of May 1984", "the third of may nineteen eighty four"),
        ("… — ' - .", ""),
    ],
)
def test_what_is_read(text: str, words: str) -> None:
    reading = read_english(text)
    assert " ".join(reading.words) == words
    assert reading.unknown == ()


def test_what_has_no_english_sound_is_named_once() -> None:
    reading = read_english("東京 hello 東 😀!")
    assert reading.words == ("hello",)
    assert reading.unknown == ("東", "京", "😀")


def test_words_of_the_dictionary_are_read_as_they_are() -> None:
    words = {pair.source for pair in pronunciations(stress=False)}
    marked = [word for word in words if not word.isalpha()]
    assert not {word for word in (*marked, *sorted(words)[::20]) if read_english(word).words != (word,)}


@given(st.text(max_size=40))
def test_any_text_gives_words_of_known_letters(text: str) -> None:
    for word in read_english(text).words:
        assert word
        assert set(word) <= set("abcdefghijklmnopqrstuvwxyz'.-")


WORDS = st.lists(
    st.sampled_from(["mr.", "in.", "u.s.", "'tis", "dogs'", "o'", "x-ray", "..a..", "'n'", "-b-", "c'-.", "3rd"])
)


@given(st.text(alphabet="abins'.- 1", max_size=20) | WORDS.map(" ".join))
def test_a_word_that_was_read_is_read_as_it_is(text: str) -> None:
    """So that a model may be given the words of a text one by one."""
    for word in read_english(text).words:
        assert read_english(word).words == (word,)


def test_endless_marks_take_no_endless_time() -> None:
    """Work grows with the text: a quadratic reading of these took minutes, here it would take hours."""
    for marks in (".", "'-.", "'.a'", "-'s.", "1,111", "x'"):
        assert len(read_english(f"a{marks * 400_000}").words) >= 1
