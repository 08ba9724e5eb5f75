"""Tokenizing distinct words once gives what tokenizing every text gives: ids, and what BPE learns."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from clearhead.data import SPECIALS, Codec, bulk, subwords
from clearhead.data.bulk import BulkEncoder
from clearhead.data.texts import DistinctWords, words_of
from tests.data.test_once import sentences

SENTENCES = sentences(300)
KINDS: dict[str, Callable[[], Codec]] = {
    "characters": lambda: Codec.learn("characters", SENTENCES[:40]),
    "symbols": lambda: Codec.learn("symbols", SENTENCES[:40]),
    "bpe": lambda: Codec.learn("bpe", SENTENCES, 400),
    "unigram": lambda: Codec.learn("unigram", SENTENCES, 120),
    "bpe, small letters": lambda: Codec.learn("bpe", SENTENCES, 400, case="lower"),
    "unigram, masked": lambda: Codec.learn("unigram", SENTENCES, 120, masked=True),
    "characters, small letters": lambda: Codec.learn("characters", SENTENCES, case="lower"),
}
_made: dict[str, Codec] = {}


def codec_of(name: str) -> Codec:
    if name not in _made:
        _made[name] = KINDS[name]()
    return _made[name]


PIECES = ["a", "b", "ab", "é", "日本", "İ", "ΑΣ", "<s>", "<mask>", "'s", "12", "…", "▁", "x▁y", "\u0301", "\x1c"]
SPACES = [" ", " ", " ", " ", "  ", "\t", "\n", "\u00a0", "\u2003", "\u2028", "\x85", "\x1f", "\u180e", "\u200b", ""]
TEXTS = st.lists(
    st.lists(st.sampled_from(PIECES + SPACES), max_size=14).map("".join)
    | st.text(st.characters(codec="utf-8"), max_size=12),
    max_size=6,
)


@pytest.mark.parametrize("name", KINDS)
@given(texts=TEXTS)
@settings(max_examples=150, deadline=None)
def test_the_ids_are_those_of_the_tokenizer(name: str, texts: list[str]) -> None:
    codec = codec_of(name)
    rows = BulkEncoder(codec).encode(texts)
    assert rows.lists() == codec.encode(texts)
    assert rows.lengths.sum() == len(rows.ids)


@pytest.mark.parametrize("name", KINDS)
def test_words_that_were_forgotten_are_learnt_anew(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for hardly any words; block after block, each with known and new ones."""
    codec = codec_of(name)
    for units, characters in ((5, 10**7), (10**7, 200)):
        monkeypatch.setattr(bulk, "_UNITS", units)
        monkeypatch.setattr(bulk, "_CHARACTERS", characters)
        encoder = BulkEncoder(codec)
        for start in range(0, 300, 25):
            block = SENTENCES[start : start + 25]
            assert encoder.encode(block).lists() == codec.encode(block)


def test_cutting_every_text_at_its_spaces_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrong variant: no text stays whole, whatever separates its words, and whatever ▁ means."""
    for name, text in (("bpe", "a  b"), ("bpe", "a\u2003b"), ("unigram", "a ▁b"), ("symbols", "a\x1cb")):
        codec = codec_of(name)
        assert BulkEncoder(codec).encode([text]).lists() == codec.encode([text])
        with monkeypatch.context() as patch:
            patch.setattr(bulk, "words_of", lambda texts, whole_with="": (texts[0].split(), [len(texts[0].split())]))
            assert BulkEncoder(codec).encode([text]).lists() != codec.encode([text]), (name, text)


def test_an_imported_tokenizer_sees_whole_texts() -> None:
    """Its words need not be independent: this one takes two words with a space between as one token."""
    tokenizer = Tokenizer(models.WordLevel({"?": 0, "New York": 1, "New": 2, "York": 3}, unk_token="?"))
    codec = Codec(tokenizer)
    assert not codec.own
    assert BulkEncoder(codec).encode(["New York", "New", "New York"]).lists() == [[1], [2], [1]]


def learnt_from_texts(texts: list[str], size: int) -> str:
    """By the library alone, from the texts themselves."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Prepend(" ")
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    specials = [AddedToken(name, special=True) for name in SPECIALS]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        initial_alphabet=alphabet, vocab_size=size, special_tokens=specials, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return str(tokenizer.to_str())


@pytest.mark.parametrize("at_once", [200_000, 30])
def test_bpe_learns_the_same_from_counts(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    """Also from texts with odd white space, long runs without any, and words that fill more than a line."""
    monkeypatch.setattr(subwords, "_AT_ONCE", at_once)
    texts = [*SENTENCES, *(["the the a"] * 500), "x" * 3000, "日" * 400, "tab\there", " lead", "trail ", "two  spaces"]
    random.Random(1).shuffle(texts)
    expected = learnt_from_texts(texts, 700)
    assert Codec.learn("bpe", texts, 700).to_json() == expected

    def once(pieces: Any) -> Any:
        return iter(pieces)

    with monkeypatch.context() as patch:  # the wrong variant: every piece once, however often it occurs
        patch.setattr(subwords, "_lines", once)
        assert Codec.learn("bpe", texts, 700).to_json() != expected


def test_words_and_texts_that_stay_whole() -> None:
    words, counts = words_of(["a b", "c", "a  b", " a", "", "a\u00a0b"])
    assert (list(words), counts.tolist()) == (["a", "b", "c", "a  b", " a", "", "a\u00a0b"], [2, 1, 1, 1, 1, 1])
    assert words_of(["a ▁b", "a b"], whole_with="▁")[1].tolist() == [1, 2]
    assert words_of([])[1].tolist() == []


def test_the_size_follows_from_the_distinct_words() -> None:
    words = DistinctWords()
    assert words.suitable_size == 500
    words.add(f"w{number}, (w{number + 1})" for number in range(2998))
    assert words.suitable_size == 900  # 2,999 words
    words.add(["w5 w2999 w3000"])
    assert words.suitable_size == 1000
    words.add(f"x{number}" for number in range(100_000))
    words.add(["more"])
    assert words.suitable_size == 32_000
