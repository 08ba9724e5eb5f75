"""Imported tokenizers: ids and texts are those of AutoTokenizer, for every kind of files, and after a round trip."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from clearhead.data import Codec, codecs_of
from clearhead.errors import DataError
from clearhead.interop.huggingface.tokenizer_files import read_tokenizers, written_files
from tests.interop import folders
from tests.thorough import drawn

SIZES = {"source": 10_000, "target": 10_000}
PARTS = [
    *(word for line in folders.LINES for word in line.split()),
    *("<s>", "</s>", "<pad>", "<unk>", "<mask>", "[MASK]", "[SEP]", "[CLS]", "<|endoftext|>", "<extra_id_3>"),
    *("en_XX", "deu_Latn", "__fr__", ">>fr<<", "▁", "##", "Ġ", " ", "  ", "\t", "\n", "\u3000", "\u200b"),
    *("🙂", "👩‍👩‍👧", "é", "e\u0301", "ﬁ", "½", "Ⅳ", "ﷺ", "東京", "Ünïcödé", "don't", "3.14", "İ", "ẞ"),
]
TEXTS = st.lists(st.sampled_from(PARTS) | st.text(max_size=6), max_size=8).flatmap(
    lambda parts: st.sampled_from(["", " "]).map(lambda between: between.join(parts))
)


Tokenizers = tuple[Any, Codec, Codec]
"""AutoTokenizer of a folder, and the tokenizers of source and target after they were stored."""


@pytest.fixture(scope="module", params=list(folders.TOKENIZERS))
def tokenizers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizers:
    folder = tmp_path_factory.mktemp("folder")
    found = stored(request.param, folder)
    return folders.auto_tokenizer(folder), *found


def stored(name: str, folder: Path) -> tuple[Codec, Codec]:
    kind = folders.make_tokenizer(name, folder)
    found, notes = read_tokenizers(folder, kind, SIZES)
    assert notes == []
    return codecs_of(found)


@drawn(60, 3000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=TEXTS)
def test_ids_and_texts_are_those_of_auto_tokenizer(tokenizers: Tokenizers, text: str) -> None:
    theirs, source, target = tokenizers
    ids = theirs(text)["input_ids"]
    assert source.wrapped(source.encode([text])[0], len(ids)) == ids
    assert target.decode([ids]) == [theirs.decode(ids, skip_special_tokens=True)]


@drawn(20, 1000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_ids_are_decoded_alike(tokenizers: Tokenizers, data: st.DataObject) -> None:
    theirs, _, target = tokenizers
    ids = data.draw(st.lists(st.integers(0, len(theirs) - 1), max_size=12))
    assert target.decode([ids]) == [theirs.decode(ids, skip_special_tokens=True)]


def test_what_a_tokenizer_does_not_know_is_named(tokenizers: Tokenizers) -> None:
    """Where AutoTokenizer gives the id of the unknown; what is spelt in bytes is known, and so is its name itself."""
    theirs, source, _ = tokenizers
    unknown = theirs.unk_token_id in theirs("東京", add_special_tokens=False)["input_ids"]
    (lacking, nothing) = source.read(["the 東京 東京", theirs.unk_token or ""])[1]
    assert ("東京" in "".join(lacking)) == unknown == bool(lacking)
    assert nothing == ()


def test_targets_of_an_encoder_decoder_have_their_own_tokenizer(tmp_path: Path) -> None:
    """Reference: MarianTokenizer(text_target=…); the source's would cut otherwise."""
    source, target = stored("Marian", tmp_path)
    theirs = folders.auto_tokenizer(tmp_path)
    lines = folders.LINES
    expected = [ids[:-1] for ids in theirs(text_target=lines)["input_ids"]]
    assert target.encode(lines) == expected
    assert source.encode(lines) != expected


@pytest.mark.parametrize(("name", "language"), [("mBART", "ro_RO"), ("NLLB", "fra_Latn"), ("M2M100", "de")])
def test_the_language_of_a_text_can_be_changed(name: str, language: str, tmp_path: Path) -> None:
    """Reference: the same tokenizer with another src_lang."""
    source, _ = stored(name, tmp_path)
    theirs = folders.auto_tokenizer(tmp_path)
    theirs.src_lang = language
    line = folders.LINES[0]
    before, after = source.frame(language)
    assert [*before, *source.encode([line])[0], *after] == theirs(line)["input_ids"]
    assert source.frame() != source.frame(language)


def test_a_template_that_is_dropped_is_noticed(tmp_path: Path) -> None:
    """The wrong variant: without the template, the ids are others; so what stands around a line is the template's."""
    source, _ = stored("BART", tmp_path)
    table = json.loads((tmp_path / "tokenizer.json").read_text())
    (tmp_path / "tokenizer.json").write_text(json.dumps(table | {"post_processor": None}))
    found, _ = read_tokenizers(tmp_path, "bart", SIZES)
    bare, _ = codecs_of(found)
    assert source.frame() == ((0,), (2,))
    assert bare.frame() == ((), ())
    assert bare.wrapped([5], 1) != source.wrapped([5], 1) == [0, 5, 2]


def test_special_tokens_can_be_plain_text(tmp_path: Path) -> None:
    """Reference: AutoTokenizer with split_special_tokens, which the folder's settings may ask for."""
    kind = folders.make_tokenizer("BERT", tmp_path)
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"split_special_tokens": True}))
    source, _ = codecs_of(read_tokenizers(tmp_path, kind, SIZES)[0])
    text = "the [SEP] boat"
    expected = folders.auto_tokenizer(tmp_path)(text, split_special_tokens=True)["input_ids"]
    assert source.wrapped(source.encode([text])[0], 99) == expected
    assert expected.count(expected[-1]) == 1
    assert source.encode_gaps(["a [MASK]"])[0][-1] == source.mask  # a gap is still a gap


def test_batches_are_not_the_tokenizer(tmp_path: Path) -> None:
    """A tokenizer.json may say how to cut and pad batches (sentence-transformers' do): a text is read whole."""
    kind = folders.make_tokenizer("BERT", tmp_path)
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    tokenizer.enable_truncation(6)
    tokenizer.enable_padding(length=9)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    source, _ = codecs_of(read_tokenizers(tmp_path, kind, SIZES)[0])
    assert source.encode(folders.LINES) == [
        ids[1:-1] for ids in folders.auto_tokenizer(tmp_path)(folders.LINES)["input_ids"]
    ]


def test_the_files_can_be_written_again(tokenizers: Tokenizers, tmp_path: Path) -> None:
    theirs, source, target = tokenizers
    sides = {"shared": source} if source is target else {"source": source, "target": target}
    for side, codec in sides.items():
        written_files(codec, tmp_path, side)
    kind = {"MarianTokenizer": "marian", "M2M100Tokenizer": "m2m_100"}.get(type(theirs).__name__, "bert")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    again = folders.auto_tokenizer(tmp_path)
    assert again(folders.LINES)["input_ids"] == theirs(folders.LINES)["input_ids"]
    assert read_tokenizers(tmp_path, kind, SIZES)[1] == []


@pytest.mark.parametrize(
    ("name", "file", "content", "reason"),
    [
        ("BERT", "tokenizer.json", "{}", "tokenizer.json: is not a tokenizer"),
        ("BERT", "tokenizer_config.json", "[]", "is not a table of settings"),
        ("BERT", "tokenizer_config.json", '{"added_tokens_decoder": {"x": 1}}', "does not list tokens"),
        ("BERT", "tokenizer_config.json", '{"added_tokens_decoder": {"-5": {"content": "x"}}}', "-5 is no id"),
        ("BERT", "tokenizer_config.json", '{"added_tokens_decoder": {"99999999999999": {"content": "x"}}}', "is no id"),
        ("mBART", "tokenizer_config.json", '{"src_lang": ["x"]}', "src_lang = ['x'] is no language"),
        ("M2M100", "tokenizer_config.json", '{"tgt_lang": ["x"]}', "tgt_lang = ['x'] is no language"),
        ("Marian", "source.spm", "nonsense", "source.spm: is not a SentencePiece model"),
        ("Marian", "vocab.json", '{"a": 1}', "vocab.json: lacks </s>"),
        ("Marian", "vocab.json", '{"</s>": "one"}', "is not a table of tokens and ids"),
        ("Marian", "vocab.json", '{"</s>": 1}', "lacks <unk>"),
        ("M2M100", "tokenizer_config.json", '{"src_lang": "klingon"}', "has no language klingon"),
        ("T5, spiece.model", "spiece.model", "nonsense", "spiece.model: transformers"),
    ],
)
def test_a_tokenizer_that_cannot_be_read_is_named(
    name: str, file: str, content: str, reason: str, tmp_path: Path
) -> None:
    kind = folders.make_tokenizer(name, tmp_path)
    (tmp_path / file).write_text(content)
    found, (note,) = read_tokenizers(tmp_path, kind, SIZES)
    assert found == {}
    assert reason in note
    assert "\n" not in note


def test_a_tokenizer_with_more_tokens_than_the_model_is_named(tmp_path: Path) -> None:
    kind = folders.make_tokenizer("BERT", tmp_path)
    found, (note,) = read_tokenizers(tmp_path, kind, {"source": 50, "target": 50})
    assert found == {}
    assert note == f"tokenizer: has ids up to {len(folders.word_pieces()) - 1}, but the model has 50 tokens"


def test_ids_around_a_line_and_of_languages_count(tmp_path: Path) -> None:
    """A template may name an id that no token has."""
    codec, _ = stored("BART", tmp_path)
    table = json.loads(codec.to_json())
    assert Codec.from_json(json.dumps(table | {"languages": {"en": 7000}})).largest == 7000
    path = tmp_path / "tokenizer.json"
    table = json.loads(path.read_text())
    path.write_text(json.dumps(table | {"post_processor": table["post_processor"] | {"cls": ["<s>", 20_000]}}))
    found, (note,) = read_tokenizers(tmp_path, "bart", SIZES)
    assert found == {}
    assert note == "tokenizer: has ids up to 20,000, but the model has 10,000 tokens"


@pytest.mark.parametrize(
    "text",
    [
        '{"imported": ',
        '{"imported": "pickle", "tokenizer": {}, "config": {}, "languages": {}}',
        '{"imported": "tokenizers", "tokenizer": {}, "config": {}, "languages": {}}',
        '{"imported": "tokenizers", "tokenizer": {}, "config": [], "languages": {}}',
        '{"imported": "sentencepiece", "tokenizer": {"model": "%"}, "config": {}, "languages": {}}',
        '{"imported": "sentencepiece", "tokenizer": [], "config": {}, "languages": {"en": "one"}}',
    ],
)
def test_a_stored_text_that_is_no_tokenizer_is_an_error(text: str) -> None:
    with pytest.raises(DataError, match="is not a"):
        Codec.from_json(text)


def test_without_sentencepiece_the_way_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders.make_tokenizer("Marian", tmp_path)
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    found, (note,) = read_tokenizers(tmp_path, "marian", SIZES)
    assert found == {}
    assert "pip install 'clearhead[interop]'" in note


def test_spaces_before_marks_are_taken_away_if_the_settings_say_so(tmp_path: Path) -> None:
    """Reference: the same setting in AutoTokenizer."""
    kind = folders.make_tokenizer("T5", tmp_path)
    plain, _ = codecs_of(read_tokenizers(tmp_path, kind, SIZES)[0])
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"clean_up_tokenization_spaces": True}))
    source, _ = codecs_of(read_tokenizers(tmp_path, kind, SIZES)[0])
    ids = source.encode(["the boat , the sun ! it is n't ' a ' river 's"])
    expected = folders.auto_tokenizer(tmp_path).decode(ids[0], skip_special_tokens=True)
    assert source.decode(ids) == [expected] != plain.decode(ids)
