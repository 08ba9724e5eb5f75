"""Tokenizers: texts come back as they were, specials in a text are text, and the choice suits the data."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data import BOS, EOS, SPECIALS, UNK, Codec, codecs_of, learn_codecs, suitable_kind
from clearhead.data.texts import Kind, lowered
from clearhead.errors import DataError
from clearhead.recipe import DataSpec, TokenizerSpec
from tests.thorough import drawn

SENTENCES = [
    f"The {w} fox No. {i} jumps over «{w}» dogs, doesn't it?" for i, w in enumerate(["quick", "lazy", "süße"] * 40)
]
WORDS = [f"{a}{b}{c}ing" for a in "bcdfg" for b in "aeiou" for c in "nmrt"]
PHONES = [" ".join(word.upper()) for word in WORDS]


@pytest.mark.parametrize(
    ("kind", "texts"), [("characters", WORDS), ("symbols", PHONES), ("bpe", SENTENCES), ("unigram", SENTENCES)]
)
def test_known_texts_come_back_as_they_were(kind: str, texts: list[str]) -> None:
    codec = Codec.learn(kind, texts, size=400)  # type: ignore[arg-type]
    again = Codec.from_json(codec.to_json())
    assert again.decode(again.encode(texts)) == texts
    assert again.kind == kind
    assert len(again) == len(codec)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=40))
@drawn(100, 3000)
def test_bytes_know_every_text(text: str) -> None:
    """Byte-level BPE has no unknown tokens: any text comes back, also one of control characters."""
    codec = _bpe()
    ids = codec.encode([text])[0]
    assert UNK not in ids
    assert codec.decode([ids]) == [text]


def test_specials_come_first_and_their_names_are_text() -> None:
    for kind, texts in (("characters", WORDS), ("symbols", PHONES), ("bpe", SENTENCES), ("unigram", SENTENCES)):
        codec = Codec.from_json(Codec.learn(kind, texts, size=400).to_json())  # type: ignore[arg-type]
        assert codec.decode([[0, 1, 2, 3]]) == [""]
        for special in SPECIALS[:3]:
            assert not {0, 1, 2} & set(codec.encode([f"{special} a"])[0]), (kind, special)


def test_the_name_of_a_special_is_read_letter_by_letter() -> None:
    codec = Codec.learn("characters", ["<s>ab"])
    assert UNK not in codec.encode(["<s>"])[0]
    assert codec.decode(codec.encode(["a<s>b"])) == ["a<s>b"]


def test_frequent_characters_come_first_and_lines_are_wrapped() -> None:
    codec = Codec.learn("characters", ["bba", "cbc"])
    assert codec.encode(["bca"]) == [[4, 5, 6]]
    assert codec.wrapped([4, 5, 6], 2) == [BOS, 4, 5, EOS]


def test_case_is_about_the_source() -> None:
    """Each side has a vocabulary of its own: the target keeps its capitals."""
    source, target = learn_codecs(["Ab", "cD"], ["X y", "x Y"], DataSpec(case="lower"))
    assert source.encode(["AB"]) == source.encode(["ab"])
    assert target.encode(["X"]) != target.encode(["x"])
    assert target.decode(target.encode(["X y"])) == ["X y"]


def test_what_was_not_learnt_is_unknown() -> None:
    codec = Codec.learn("characters", ["abc"])
    assert codec.encode(["abz"])[0][-1] == UNK
    assert len(codec) == 4 + 3


def test_the_choice_suits_the_data() -> None:
    assert suitable_kind(PHONES) == "symbols"
    assert suitable_kind(WORDS) == "characters"
    assert suitable_kind(SENTENCES) == "bpe"
    source, target = learn_codecs(WORDS, PHONES, DataSpec())
    assert (source.kind, target.kind) == ("characters", "symbols")
    left, right = learn_codecs(SENTENCES, SENTENCES, DataSpec(target=TokenizerSpec(size=300)))
    assert left is right
    assert len(left) == 300
    left, right = learn_codecs(SENTENCES, SENTENCES, DataSpec(source=TokenizerSpec(kind="unigram"), shared=None))
    assert (left.kind, right.kind) == ("unigram", "bpe")


def test_a_model_file_keeps_them() -> None:
    codec = _bpe()
    source, target = codecs_of({"shared": codec.to_json()})
    assert source is target
    source, target = codecs_of({"source": codec.to_json(), "target": Codec.learn("symbols", PHONES).to_json()})
    assert (source.kind, target.kind) == ("bpe", "symbols")
    with pytest.raises(DataError, match="has no tokenizers"):
        codecs_of({})


_cache: dict[str, Codec] = {}


def _bpe() -> Codec:
    if "bpe" not in _cache:
        _cache["bpe"] = Codec.learn("bpe", SENTENCES, size=400)
    return _cache["bpe"]


@pytest.mark.parametrize("kind", ["characters", "symbols", "bpe", "unigram"])
def test_case_is_part_of_the_tokenizer(kind: Kind) -> None:
    """Learnt from text with capitals or without, read with them or without, kept as JSON or not: the same ids."""
    texts = ["Der Mann ist HIER", "die Frau auch", "ÄPFEL und Birnen", "ΟΔΟΣ"] * 20
    codec = Codec.learn(kind, texts, 60, case="lower")
    assert len(codec) == len(Codec.learn(kind, lowered(texts), 60))
    again = Codec.from_json(codec.to_json())
    for text in texts[:3]:
        assert codec.encode([text.upper()]) == codec.encode([text.lower()]) == again.encode([text])
        assert codec.decode(codec.encode([text])) == [text.lower()]
    assert codec.read(texts)[1] == [()] * len(texts)
    assert again.kind == kind


def test_a_shared_vocabulary_lowers_the_source_alone() -> None:
    left, right = learn_codecs(["Ab cd"] * 9, ["Ab Cd"] * 9, DataSpec(case="lower", shared=True))
    assert len(left) == len(right)
    assert left.encode(["AB"]) == left.encode(["ab"]) == right.encode(["ab"])
    assert right.decode(right.encode(["Ab Cd"])) == ["Ab Cd"]


def test_what_is_unknown_is_named() -> None:
    codec = Codec.learn("characters", ["abc"])
    assert codec.read(["abc", "xaXx\n", ""])[1] == [(), ("x", "X", "\n"), ()]
    assert Codec.learn("symbols", ["a bc"]).read(["a b <s> bc"])[1] == [("b", "<s>")]
    assert Codec.learn("bpe", ["abc"], 300).read(["日本"])[1] == [()]
    assert Codec.learn("unigram", ["abc abd"] * 9, 12).read(["abc 日本"])[1] == [("日本",)]
