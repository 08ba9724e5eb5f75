"""The model that comes with the package: any English text is read, words are pronounced one by one."""

import itertools
import math
import pickle
from typing import Any, cast

import pytest

import clearhead
from clearhead.data import Pair, pronunciations
from clearhead.errors import ClearheadError, RecipeError
from clearhead.predictor import Pronouncer, TextWriter, UnknownCharacters
from clearhead.predictor.pronouncer import BETWEEN_WORDS


@pytest.fixture(scope="module")
def model() -> Pronouncer:
    """The shipped model, greedy, for speed."""
    return cast("Pronouncer", clearhead.load("g2p-en", "decoding.beam_size=1"))


def test_a_plain_word_is_answered_as_the_bare_model_would(model: Pronouncer) -> None:
    bare = TextWriter(model.model, model.recipe, (model.source, model.target))
    words = ["cabbage", "thoroughly", "don't", "u.s.", "ad-hoc", "rockin'"]
    for ours, theirs in zip(model.answers(words), bare.answers(words), strict=True):
        assert ours[0].tokens == theirs[0].tokens
        assert ours[0].log_probability == pytest.approx(theirs[0].log_probability, abs=1e-6)


def test_case_accents_and_punctuation_do_not_matter(model: Pronouncer) -> None:
    assert model("«Naïve!»") == model("naive") == model.generate(["NAIVE"])[0]


def test_the_words_of_a_text_are_pronounced_one_by_one(model: Pronouncer) -> None:
    assert model("Cabbage patch, 42.") == BETWEEN_WORDS.join(model.generate(["cabbage", "patch", "forty", "two"]))
    assert "".join(model.stream("Cabbage patch, 42.")) == model("Cabbage patch, 42.")


def test_a_line_does_not_depend_on_its_neighbours(model: Pronouncer) -> None:
    texts = ["one", "two words", "", "a line of several words", "¿?"]
    together = model.answers(texts)
    for text, answers in zip(texts, together, strict=True):
        assert [answer.text for answer in answers] == [answer.text for answer in model.answers([text])[0]]


def test_sampling_depends_on_the_number_of_the_line_alone(model: Pronouncer) -> None:
    drawn = model.answers(["read the read", "read"], sample=True, numbers=[7, 3])
    assert drawn[0][0].tokens == model.answers(["read the read"], sample=True, numbers=[7])[0][0].tokens
    # the first word of a line is drawn as if it stood alone, and others by seeds of their own
    alone = model.answers(["read"], sample=True, numbers=[7])[0][0]
    assert drawn[0][0].text.split(BETWEEN_WORDS)[0] == alone.text


def test_a_sampled_stream_draws_what_an_answer_draws(model: Pronouncer) -> None:
    text = "read the read thoroughly"
    settings: dict[str, Any] = {"sample": True, "temperature": 2.0, "seed": 3}
    assert "".join(model.stream(text, **settings)) == model.answers([text], **settings)[0][0].text


def test_the_best_combinations_are_those_of_all(model: Pronouncer) -> None:
    words = [answers[:4] for answers in model.answers(["read", "lead", "wind"], n_best=4)]
    found = model.answers(["read lead wind"], n_best=4)[0]
    every = sorted((sum(part.score for part in parts) for parts in itertools.product(*words)), reverse=True)
    assert [answer.score for answer in found] == pytest.approx(every[:4], abs=1e-4)
    assert found[0].log_probability == pytest.approx(sum(part[0].log_probability for part in words), abs=1e-4)


def test_what_has_no_sound_is_named(model: Pronouncer) -> None:
    with pytest.warns(UnknownCharacters, match="東 京"):
        assert model("東京 cabbage") == model("cabbage")
    assert model.answers(["東"])[0][0].unknown == ("東",)
    assert model.answers(["東"])[0][0].text == ""


class TestDictionary:
    def test_listed_words_are_looked_up_and_others_are_not(self, model: Pronouncer) -> None:
        listed: dict[str, list[str]] = {}
        for pair in pronunciations(stress=False):
            listed.setdefault(pair.source, []).append(pair.target)
        words = ["read", "colonel", "lieutenant", "worcestershire"]
        found = model.answers(words, n_best=4, dictionary=True)
        for word, answers in zip(words, found, strict=True):
            assert [answer.text for answer in answers] == listed[word][:4]
        assert model("clearheadish", dictionary=True) == model("clearheadish")
        assert model("Colonel clearheadish!", dictionary=True) == f"{listed['colonel'][0]} | {model('clearheadish')}"

    def test_the_probability_is_the_models(self, model: Pronouncer) -> None:
        answer = model.answers(["colonel"], dictionary=True)[0][0]
        assert answer.log_probability == pytest.approx(model.score(["colonel"], [answer.text])[0], abs=1e-5)
        assert not math.isnan(answer.log_probability)

    def test_streams_look_words_up_too(self, model: Pronouncer) -> None:
        text = "Colonel clearheadish!"
        assert "".join(model.stream(text, dictionary=True)) == model(text, dictionary=True)
        assert "".join(model.stream(text)) != model(text, dictionary=True)
        assert model.in_pieces("colonel", model.decoding())
        assert not model.in_pieces("colonel", model.decoding(dictionary=True))

    def test_another_model_has_none(self) -> None:
        with pytest.raises(RecipeError, match="only a model of the task g2p-en"):
            clearhead.read_recipe("tiny", "decoding.dictionary=true")


def test_scoring_reads_as_answering_does(model: Pronouncer, recwarn: pytest.WarningsRecorder) -> None:
    capital, plain = model.forced([Pair("Café", "K AH F EY", 1), Pair("cafe", "K AH F EY", 2)])
    assert capital.log_probability == plain.log_probability
    assert model.score(["Café"], ["K AH F EY"]) == pytest.approx([plain.log_probability])
    assert not recwarn.list


def test_one_word_can_be_looked_into(model: Pronouncer) -> None:
    assert model.look("Cabbage!").subject.answer_text == model("cabbage")
    with pytest.raises(ClearheadError, match="one word at a time"):
        model.look("two words")


def test_it_can_be_sent_to_other_processes(model: Pronouncer) -> None:
    other = pickle.loads(pickle.dumps(model))
    assert type(other) is Pronouncer
    assert other("Cabbage patch") == model("Cabbage patch")


def test_stress_is_marked_by_a_model_of_its_own() -> None:
    """Every vowel has a mark, no consonant has one; without the marks it is mostly what the other model says."""
    marked, plain = clearhead.load("g2p-en-stress"), clearhead.load("g2p-en")
    phones = marked("transformers").split()
    assert [phone for phone in phones if phone[-1].isdigit()] == ["AE0", "AO1", "ER0"]
    assert "".join(letter for letter in " ".join(phones) if not letter.isdigit()) == plain("transformers")
