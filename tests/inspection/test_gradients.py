"""Integrated gradients add up to the difference from the baseline; occlusion is what a change of the input gives."""

import warnings
from typing import Any

import pytest
import torch

from clearhead.errors import ClearheadError
from clearhead.inspection import InexactAttribution, View
from clearhead.inspection.gradients import integrated
from clearhead.models import build
from clearhead.predictor.looking import look_at_ids
from clearhead.recipe import read_recipe
from tests.inspection.cases import NORMS, apart, ids
from tests.inspection.conftest import Hold
from tests.models.zoo import RECURRENT, SIZES, make

SOURCE, TARGET = [*ids(1, 6)[0].tolist(), 2], [*ids(1, 4, seed=4)[0].tolist(), 2]
NAME = "integrated gradients: |Σ − Δ| / |Δ|"


def fresh(family: str, *settings: str) -> Any:
    """A model at its initial weights, which is smooth enough for a few steps."""
    return build(read_recipe(None, f"model.family={family}", *SIZES, *settings), seed=5)


def look(family: str, model: Any) -> View:
    if family == "seq2seq":
        return look_at_ids(model, SOURCE, TARGET)
    return look_at_ids(model, SOURCE, [1] if family == "classifier" else ())


@pytest.mark.parametrize("norm", ["pre", "post", "pre, RMS", "the lecture's norm"])
@pytest.mark.parametrize("family", ["seq2seq", "lm", "encoder", "classifier"])
def test_integrated_gradients_add_up(family: str, norm: str, hold: Hold) -> None:
    head = ["model.head=tokens"] if family == "encoder" else []
    view = look(family, fresh(family, *NORMS[norm], *head))
    found = view.inputs(at=-1)
    total = sum(found.source) + sum(found.prefix)
    seen = abs(total - found.delta) / abs(found.delta)
    assert found.error == pytest.approx(seen)
    assert found.baseline == "<unk>"
    hold(NAME, 0.01, seen)
    if family == "seq2seq":
        assert len(found.source) == len(SOURCE)
        assert found.source[-1] == 0, "the end token is not replaced"
        assert found.prefix[0] == 0, "nor the start token"


def test_a_single_gradient_is_rejected(hold: Hold) -> None:
    """Wrong: the gradient halfway, times the difference."""
    model = make("seq2seq", "plain")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InexactAttribution)
        view = look_at_ids(model, SOURCE, TARGET)
        fine = integrated(model, view.subject, 1, most=2048)
        coarse = integrated(model, view.subject, 1, steps=1, most=1)
    hold(NAME, 0.01, fine.error, coarse.error)


def test_an_error_that_is_left_is_said() -> None:
    view = look_at_ids(make("seq2seq", "plain"), SOURCE, TARGET)
    with pytest.warns(InexactAttribution, match=r"miss the difference by .*% after 1 steps"):
        integrated(view.model, view.subject, 1, steps=1, most=1)


def test_against_is_the_difference_of_two_logits() -> None:
    view = look("seq2seq", fresh("seq2seq"))
    found = view.inputs(at=1, against="7")
    row = view.record.logits[0, 1]
    base = look_at_ids(view.model, [3] * 6 + [2], [*[3] * 4, 2]).record.logits[0, 1]
    token = TARGET[1]
    expected = float((row[token] - row[7]) - (base[token] - base[7]))
    assert found.delta == pytest.approx(expected, abs=1e-5)
    assert found.against == "7"


@pytest.mark.parametrize("variant", ["bahdanau", "luong"])
def test_recurrent_models_have_them_too(variant: str) -> None:
    assert variant in RECURRENT
    view = look_at_ids(make("seq2seq", variant), SOURCE, TARGET)
    found = view.inputs(at=0)
    assert found.error <= 0.01


def test_hard_attention_is_refused() -> None:
    view = look_at_ids(make("seq2seq", "hard"), SOURCE, TARGET)
    with pytest.raises(ClearheadError, match="step function"):
        view.inputs(at=0)


@pytest.mark.parametrize("family", ["seq2seq", "lm", "encoder", "classifier"])
def test_occlusion_is_a_change_of_the_input(family: str, hold: Hold) -> None:
    """Each column against a look at the changed line; wrong: the column of the next token."""
    model = make(family, "plain", *(["model.head=tokens"] if family == "encoder" else []))
    view = look(family, model)
    drops = view.occlusion()
    assert drops.shape == (len(view.answer), len(SOURCE))
    for place in (1, 3):
        changed = [3 if number == place else token for number, token in enumerate(SOURCE)]
        logits = look_at_ids(model, changed, TARGET if family == "seq2seq" else ()).record.logits
        log_p = (logits[0] if logits.dim() == 3 else logits).double().log_softmax(-1)
        for number, (token, row, before) in enumerate(
            zip(view.subject.answer, view.subject.rows, view.log_probabilities, strict=True)
        ):
            if row is not None and before is not None and number > place:
                expected = torch.tensor(before) - log_p[row, token]
                seen, wrong = apart(drops[number, place], expected), apart(drops[number, place + 1], expected)
                hold("occlusion = the same line with <unk>", 1e-5, seen, wrong)
    assert drops[-1, -1] == 0, "the end token stays"
