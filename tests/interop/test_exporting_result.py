"""The verdict on an export: when it holds, and what is said about it."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from clearhead.interop.exporting import Agreement, Exported, SampleBatch, make_sample, verifying
from clearhead.interop.exporting.verifying import compare
from clearhead.models import SavedModel, build
from clearhead.recipe import read_recipe
from tests.models.zoo import SIZES


def test_numbers_and_answers_must_both_agree() -> None:
    fine = Agreement("logits", 1e-6, 10.0, 100, answers=5, same=4, ties=1)
    assert fine.holds(1e-4)
    assert not Agreement("logits", 1e-6, 10.0, 100, answers=5, same=4).holds(1e-4)
    assert not Agreement("logits", 0.1, 10.0, 100, answers=5, same=5).holds(1e-4)
    assert not Agreement("logits", math.inf, 10.0, 100).holds(1e-4)
    # agreement in float64 excuses rounding of values, and nothing else
    assert Agreement("logits", 0.1, 10.0, 100, answers=5, same=5, exact=1e-12).holds(1e-4)
    assert not Agreement("logits", 0.1, 10.0, 100, answers=5, same=5, exact=1e-6).holds(1e-4)
    assert not Agreement("logits", 0.1, 10.0, 100, answers=5, same=4, exact=1e-12).holds(1e-4)
    # and so does the model's own rounding, a few times as much
    assert Agreement("logits", 0.1, 10.0, 100, answers=5, same=5, rounding=0.03).holds(1e-4)
    assert not Agreement("logits", 0.1, 10.0, 100, answers=5, same=5, rounding=0.02).holds(1e-4)
    assert not Agreement("logits", 0.1, 10.0, 100, answers=5, same=4, rounding=0.03).holds(1e-4)
    assert str(fine) == "max |Δ| of logits 1.0e-06, 4 of 5 greedy answers identical and 1 at a tie"


class Fake:
    """The model itself, with one number changed."""

    measure = "logits"

    def __init__(self, sample: object, value: float) -> None:
        self.sample, self.value = sample, value

    def values(self, batch: SampleBatch) -> Tensor:
        found: Tensor = self.sample.logits(batch)  # type: ignore[attr-defined]
        found[0, 0] = self.value
        return found

    def answers(self, batch: SampleBatch) -> list[list[int]] | None:
        return batch.answers


def test_what_is_not_a_number_is_no_agreement() -> None:
    recipe = read_recipe(None, *SIZES, "model.layers=1", "model.family=classifier")
    sample = make_sample(SavedModel(build(recipe, seed=1).eval(), recipe, {}))
    assert compare(sample, Fake(sample, torch.nan)).worst == math.inf
    assert compare(sample, Fake(sample, 100.0)).worst > 90


class Answering(Fake):
    """The model itself, whose first answer ends in another token."""

    def values(self, batch: SampleBatch) -> Tensor:
        return self.sample.logits(batch)  # type: ignore[attr-defined, no-any-return]

    def answers(self, batch: SampleBatch) -> list[list[int]] | None:
        assert batch.answers is not None
        (first, *others) = batch.answers
        return [[*first[:-1], first[-1] + 1], *others]


def test_an_answer_may_part_where_rounding_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """By chance where the model's lead is within twice its own rounding; by a mistake where it is beyond."""
    recipe = read_recipe(None, *SIZES, "model.layers=1", "model.family=lm")
    sample = make_sample(SavedModel(build(recipe, seed=1).eval(), recipe, {}))
    wrong = compare(sample, Answering(sample, 0.0))
    assert wrong.ties < wrong.answers - wrong.same
    assert not wrong.holds(1e-4)
    assert wrong.rounding is not None
    assert 0 < wrong.rounding < 1e-4
    monkeypatch.setattr(verifying, "_rounding", lambda sample, measure: 10.0)
    assert compare(sample, Answering(sample, 0.0)).holds(1e-4)


def test_what_is_printed() -> None:
    agreement = Agreement("logits", 1e-6, 10.0, 100, answers=5, same=5)
    one = Exported("onnx", Path("out"), "ONNX", {"a.onnx": 1500, "b": 20}, agreement, 5, "given", ("a note",))
    assert str(one).splitlines() == [
        "out: ONNX, 1.5 kB",
        "  a.onnx     1.5 kB",
        "  b            20 B",
        "compared on 5 lines (given): max |Δ| of logits 1.0e-06, 5 of 5 greedy answers identical",
        "note: a note",
    ]
    assert one.as_dict()["agreement"]["identical"] == 5
