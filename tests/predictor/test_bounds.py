"""Decoding settings that make no sense, or do not fit: refused with a reason, before anything is taken."""

import math
from typing import Any

import pytest
import torch

from clearhead.decoding import Sampler, length_penalty
from clearhead.errors import DoesNotFit, RecipeError
from clearhead.predictor import TextWriter


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"banned": [10**9]}, RecipeError, r"decoding\.banned: there is no token 1000000000: ids range from 0 to"),
        ({"prefix": [10**7]}, RecipeError, r"decoding\.prefix: there is no token 10000000: ids range from 0 to"),
        ({"banned": list(range(11))}, RecipeError, r"decoding\.banned: leaves no token"),
        ({"beam_size": 10**5}, DoesNotFit, r"100,000 beams"),
        ({"max_ratio": 1e300}, DoesNotFit, r"to write\) needs about"),
        ({"max_length": 10**12}, DoesNotFit, r"1,000,000,000,000 to write"),
        ({"max_extra": 10**12}, DoesNotFit, r"to write"),
        ({"min_length": 10**12}, DoesNotFit, r"1,000,000,000,000 to write"),
        ({"min_ratio": 1e300}, DoesNotFit, r"to write"),
    ],
)
def test_what_cannot_be(predictor: TextWriter, settings: dict[str, Any], error: type[Exception], words: str) -> None:
    """The bounds of a recipe may refuse some of these first."""
    try:
        spec = predictor.decoding(**settings)
    except RecipeError:
        return
    with pytest.raises(error, match=words):
        predictor.answers(["abc"], spec)
    with pytest.raises(error):
        list(predictor.engine.stream([4, 5, 2], spec.model_copy(update={"beam_size": spec.beam_size})))


def test_what_is_large_and_does_no_harm(predictor: TextWriter) -> None:
    usual = predictor("abc")
    for settings in ({"max_source": 10**9}, {"batch_tokens": 10**9}):
        try:
            spec = predictor.decoding(**settings)
        except RecipeError:
            continue
        assert predictor.answers(["abc"], spec)[0][0].text == usual


def test_the_shortest_answer_goes_before_the_usual_length(predictor: TextWriter) -> None:
    ((best, *_),) = predictor.answers(["a"], min_length=40)
    assert len(best.tokens) >= 40


def test_a_position_table_that_ends(predictor: TextWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictor.engine, "_write_reach", 64)
    with pytest.raises(RecipeError, match=r"min_length: is 65, but the model writes at most 64 tokens"):
        predictor.answers(["abc"], min_length=65)


def test_room_is_asked_for_as_it_doubles(predictor: TextWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a long answer memory is asked for again and again, before it is taken."""
    asked: list[int] = []
    monkeypatch.setattr(predictor.engine, "_require_memory", lambda lines, beams, tokens, length: asked.append(length))
    predictor.answers(["abc"], min_length=100)
    assert asked == [16, 100, 100, 32, 64, 128]


def test_no_number_is_too_cold_or_too_large() -> None:
    values = torch.tensor([[1.0, 3.0, 2.0, -math.inf]])
    assert Sampler(temperature=1e-300)(values, [0]).tolist() == [1]
    assert Sampler(temperature=1e-300, top_k=10**30, top_p=0.5)(values, [0]).tolist() == [1]
    assert Sampler(temperature=1e300)(values, [0]).item() in (0, 1, 2)
    assert length_penalty(20, 1e308) > 0
