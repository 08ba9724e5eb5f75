"""The engine: the longest inputs that it accepts, lengths of answers, and settings that reach the search."""

import sys
from typing import Any

import pytest
import torch

from clearhead.decoding import Sampler
from clearhead.errors import TooLong
from clearhead.predictor import Engine
from clearhead.recipe import DecodingSpec
from tests.models.zoo import VARIANTS, make

LONG = 600


@pytest.mark.parametrize("family", ["seq2seq", "lm"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_model_takes_as_much_as_its_parts_can_and_no_less(variant: str, family: str) -> None:
    """To the last token where a table or a map over the length ends, and anything where none does.

    An encoder-decoder reads so much; what a language model reads and writes goes through one stack.
    """
    model = make(family, variant)
    end = Engine(model).reach
    read = model.encode if family == "seq2seq" else model
    with torch.no_grad():
        read(torch.full((1, min(end, LONG)), 5))
        if end < sys.maxsize:
            with pytest.raises(TooLong):
                read(torch.full((1, end + 1), 5))


LINES = [[5, 6, 7, 8], [9, 10, 11, 12, 13, 14, 15], [16, 17]]


def test_lengths_follow_from_the_line_and_the_settings() -> None:
    """max_ratio · n + max_extra at most, min_length or min_ratio · n at least; a language model's prompt takes room."""
    engine = Engine(make("seq2seq", "plain"))
    rules = engine._writing(LINES, DecodingSpec(max_ratio=2.0, max_extra=3, min_length=2, min_ratio=0.5)).rules
    assert (rules.longest, rules.shortest) == ([11, 17, 7], [2, 3, 2])
    assert engine._writing(LINES, DecodingSpec(max_length=6)).rules.longest == [6, 6, 6]
    lm = Engine(make("lm", "position learned", "model.position.size=9"))
    assert lm._writing(LINES, DecodingSpec(max_length=100)).rules.longest == [5, 2, 7]


def test_settings_reach_the_search() -> None:
    """<pad>, <s> and <unk> are never written, </s> may be; sampling has the recipe's settings."""
    engine = Engine(make("seq2seq", "plain"))
    writing = engine._writing(
        LINES, DecodingSpec(banned=[20], sample=True, seed=9, temperature=0.7, top_k=5, top_p=0.3)
    )
    assert writing.rules.banned == [0, 1, 3, 20]
    assert writing.sampler == Sampler(9, 0.7, 5, 0.3)


def test_the_length_penalty_of_the_settings_ranks_hypotheses() -> None:
    engine = Engine(make("seq2seq", "plain"))
    for (line,) in (engine.search([LINES[0]], DecodingSpec(beam_size=4, length_penalty=alpha)) for alpha in (0.0, 1.5)):
        assert len(line) == 4
    for one in line:
        length = len(one.tokens) + one.finished
        assert one.score == pytest.approx(one.log_probability / ((5 + length) / 6) ** 1.5)
        assert one.score != pytest.approx(one.log_probability)


SEARCHES: list[dict[str, Any]] = [
    {"beam_size": 1},
    {"beam_size": 2, "min_length": 4},
    {"beam_size": 4, "length_penalty": 1.5, "no_repeat_ngram_size": 1},
    {"beam_size": 5, "banned": [20, 21], "prefix": [9, 9]},
]


@pytest.mark.parametrize("variant", ["plain", "post norm", "feedforward gated", "rope in neighbours, and across"])
@pytest.mark.parametrize("settings", SEARCHES)
def test_one_line_has_the_n_best_of_the_batch_decoder(
    variant: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stepper for one line, against the one for batches: all hypotheses, their order and their scores."""
    model = make("seq2seq", variant)
    spec = DecodingSpec(max_length=70, **settings)
    mine = Engine(model)
    found = mine.search([LINES[1]], spec, scored=True)[0]
    assert mine._single is not None
    monkeypatch.setattr("clearhead.predictor.engine.single_decoder", lambda _: None)
    other = Engine(model)
    expected = other.search([LINES[1]], spec, scored=True)[0]
    assert other._single is None
    assert [one.tokens for one in found] == [one.tokens for one in expected]
    assert [one.score for one in found] == pytest.approx([one.score for one in expected], rel=1e-5)


@pytest.mark.parametrize("settings", [{"beam_size": 1}, {"beam_size": 3}, {"sample": True, "seed": 4}])
def test_every_line_gets_its_own_answer_whatever_the_batches_are(settings: dict[str, Any]) -> None:
    """Lines are sorted by length and decoded together; each answer is that of the line alone, with its number."""
    engine = Engine(make("seq2seq", "plain"))
    together = engine.search(LINES, DecodingSpec(max_length=6, **settings), scored=True)
    for number, line in enumerate(LINES):
        (alone,) = engine.search([line], DecodingSpec(max_length=6, **settings), scored=True, numbers=[number])
        assert [one.tokens for one in together[number]] == [one.tokens for one in alone]
        assert together[number][0].log_probability == pytest.approx(alone[0].log_probability, abs=1e-4)
