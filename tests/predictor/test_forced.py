"""Teacher forcing and labels by models without training: each line as if it stood alone, formulas written out."""

import math
from typing import Any

import pytest
import torch

from clearhead.data import Codec, Labelled
from clearhead.models import build
from clearhead.predictor import Labeller
from clearhead.predictor.forced import _judged, forced
from clearhead.recipe import read_recipe
from tests.models.zoo import make

SOURCES = [[5, 6, 7, 2], [8, 2], [9, 10, 11, 12, 13, 2]]
TARGETS = [[14, 2], [15, 16, 17, 2], [18, 2]]


@torch.no_grad()
def test_forced_lines_are_those_of_single_passes() -> None:
    """Reference: log p(y_l | y_<l; x), one line at a time, with the answer shifted by one and its end included."""
    model = make("seq2seq", "plain").eval()
    for line, source, target in zip(forced(model, SOURCES, TARGETS), SOURCES, TARGETS, strict=True):
        logits = model(torch.tensor([source]), torch.tensor([[1, *target[:-1]]]))[0].double()
        log_p = [math.log(float(row.softmax(-1)[token])) for row, token in zip(logits, target, strict=True)]
        assert line.log_probabilities == pytest.approx(log_p, abs=1e-5)
        assert line.log_probability == pytest.approx(sum(log_p), abs=1e-5)


def test_padding_is_neither_right_nor_wrong() -> None:
    """Of four tokens, the last two of the first line are padding, which the logits say."""
    said = torch.tensor([[4, 2, 0, 0], [3, 4, 4, 2]])
    logits = torch.nn.functional.one_hot(said, 6).float()
    first, second = _judged(logits, [[4, 2], [3, 4, 5, 2]])
    assert (first.right, second.right) == (2, 3)
    assert (len(first.log_probabilities), len(second.log_probabilities)) == (2, 4)


@pytest.fixture(scope="module")
def labeller() -> Labeller:
    codec = Codec.learn("characters", ["abcdefg"])
    sizes = ["model.layers=1", "model.width=16", "model.heads=2", f"model.vocabulary.source={len(codec)}"]
    labels = 'model.labels=["x", "y", "z"]'
    recipe = read_recipe(None, "model.family=classifier", *sizes, labels, "model.classes=3")
    model: Any = build(recipe, seed=3).eval()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.5, generator=generator)
    return Labeller(model, recipe, (codec, codec))


TEXTS = ["abcdefg", "a", "gfa", "bb", "edcba"]


def test_labels_come_with_the_most_probable_first_as_for_each_text_alone(labeller: Labeller) -> None:
    firsts = set()
    for text, answers in zip(TEXTS, labeller.answers(TEXTS, n_best=3), strict=True):
        (alone,) = labeller.answers([text], n_best=3)
        assert [one.text for one in answers] == [one.text for one in alone]
        values = [one.log_probability for one in answers]
        assert values == sorted(values, reverse=True)
        assert values == pytest.approx([one.log_probability for one in alone], abs=1e-5)
        assert sum(map(math.exp, values)) == pytest.approx(1.0)
        firsts.add(answers[0].text)
        for one in answers:
            (line,) = labeller.forced([Labelled(one.text, text, 1)])
            assert line.log_probability == pytest.approx(one.log_probability, abs=1e-5)
            assert line.right == (one is answers[0])
    assert firsts != {"x"}, "the order of the labels themselves would pass"


def test_a_vector_is_that_of_the_text_alone(labeller: Labeller) -> None:
    together = labeller.vectors(TEXTS)
    for row, text in zip(together, TEXTS, strict=True):
        torch.testing.assert_close(row, labeller.vectors([text])[0], atol=1e-5, rtol=1e-4)
