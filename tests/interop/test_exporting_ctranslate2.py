"""Out to CTranslate2: its Translator and its Generator compute what the model computes."""

from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.errors import ClearheadError
from clearhead.interop.exporting import ctranslate2, make_sample
from clearhead.interop.exporting.verifying import require_agreement
from clearhead.models import SavedModel, build, stored_tensors
from clearhead.recipe import read_recipe
from tests.models.zoo import SIZES

T5 = ["model.position.kind=t5", "model.norm.kind=rmsnorm", "model.attention.scale=none", "model.attention.bias=false"]
MODELS: dict[str, list[str]] = {
    "pre-LN, sinusoidal": ["model.family=seq2seq"],
    "post-LN, learned": ["model.family=seq2seq", "model.norm.place=post", "model.position.kind=learned"],
    "T5, gated": ["model.family=seq2seq", *T5, "model.feedforward.kind=gated", "model.embedding.output_scale=rsqrt"],
    "rope": ["model.family=seq2seq", "model.position.kind=rope", "model.embedding.norm=true"],
    "lm, alibi": ["model.family=lm", "model.position.kind=alibi", "model.feedforward.activation=gelu-tanh"],
    "lm, rope, interleaved": ["model.family=lm", "model.position.kind=rope", "model.position.layout=interleaved"],
}


def model_of(*overrides: str) -> SavedModel:
    recipe = read_recipe(None, *SIZES, *overrides)
    model, random = build(recipe, seed=1).eval(), torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:  # biases of 0 would hide a lost one
                parameter.add_(torch.empty_like(parameter).normal_(0, 0.1, generator=random))
    return SavedModel(model, recipe, {})


@pytest.mark.parametrize("name", MODELS)
def test_the_engine_computes_the_same(name: str, tmp_path: Path) -> None:
    written = ctranslate2.write_ctranslate2(make_sample(model_of(*MODELS[name])), tmp_path, int8=False)
    require_agreement(written.agreement, "ctranslate2")
    assert written.agreement.worst < 1e-5
    assert written.agreement.same == written.agreement.answers == 24


def test_eight_bits_are_counted_and_leave_the_model_alone(tmp_path: Path) -> None:
    saved = model_of("model.family=seq2seq")
    before = {name: tensor.clone() for name, tensor in stored_tensors(saved.model).items()}
    written = ctranslate2.write_ctranslate2(make_sample(saved), tmp_path, int8=True)
    assert written.int8 is not None
    assert 1e-4 < written.int8.worst < 1.0
    assert written.int8.answers == 24
    assert written.agreement.holds(1e-4)
    assert all(torch.equal(tensor, before[name]) for name, tensor in stored_tensors(saved.model).items())


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (["model.attention.kind=disentangled"], "encoder.attention.kind is disentangled"),
        (["model.position.kind=alibi"], "encoder.position.kind is alibi"),
        (["model.position.kind=shaw"], "position.kind is shaw"),
        (["model.attention.choice=hard"], "not a softmax of dot products"),
        (["model.norm.eps_place=outside"], "ε inside the root"),
        (["model.feedforward.kind=outer"], "feedforward.kind is outer"),
        (["model.cross.attention.heads=4"], "cross.attention.heads differs"),
        (["model.cross.position.kind=rope"], "cross-attention there knows no positions"),
        (["model.encoder.ngrams.reach=1"], "no tables of n-grams"),
        (["model.family=classifier"], "family classifier generates no text"),
        (["model.encoder.kind=convolutional"], "encoder.kind is convolutional"),
    ],
)
def test_what_it_cannot_express_is_refused(overrides: list[str], reason: str) -> None:
    assert reason in "; ".join(ctranslate2.refusals(read_recipe(None, *SIZES, *overrides).model))


def test_positions_that_are_off_by_one_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = ctranslate2._positions

    def late(stack: Any) -> Any:
        return right(stack)[1:]

    monkeypatch.setattr(ctranslate2, "_positions", late)
    written = ctranslate2.write_ctranslate2(make_sample(model_of("model.family=seq2seq")), tmp_path, int8=False)
    with pytest.raises(ClearheadError, match="computes something else"):
        require_agreement(written.agreement, "ctranslate2")
