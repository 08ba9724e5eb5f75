"""Graphs with open lengths compute what the model computes: every position scheme and family, in two formats."""

from pathlib import Path

import pytest
import torch

from clearhead.errors import ClearheadError, UnsupportedModel
from clearhead.interop.exporting import make_sample
from clearhead.interop.exporting.onnx import OnnxEngine, write_onnx
from clearhead.interop.exporting.torch_export import ProgramEngine, trace_graphs
from clearhead.interop.exporting.verifying import compare, require_agreement
from clearhead.models import SavedModel, build
from clearhead.positions import absolute
from clearhead.recipe import read_recipe
from tests.models.zoo import SIZES
from tests.thorough import proved_later

SMALL = [*SIZES, "model.layers=1", "model.width=8"]
POSITIONS = {
    **{kind: [f"model.position.kind={kind}"] for kind in ("sinusoidal", "learned", "rope", "alibi", "t5", "shaw")},
    "rope, grouped queries": [
        *(
            "model.position.kind=rope",
            "model.attention.kv_heads=1",
            "model.attention.qk_norm=rmsnorm",
            "model.layers=2",
        ),
        *("model.attention.kind=local", "model.attention.window=3", "model.attention.whole=[2]"),
    ],
    "disentangled": ["model.attention.kind=disentangled", "model.attention.span=3"],
}


def model_of(*overrides: str) -> SavedModel:
    recipe = read_recipe(None, *SMALL, *overrides)
    model, random = build(recipe, seed=1).eval(), torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2 and not parameter.any():  # n-grams that nobody has seen would hide a lost table
                parameter.normal_(0, 0.3, generator=random)
    return SavedModel(model, recipe, {})


TRACED = ("learned", "alibi", "rope, grouped queries")
"""The others are traced below (sinusoids, disentangled), in one of these (RoPE), or in test_engines.py (T5, Shaw)."""


@pytest.mark.parametrize("position", proved_later(POSITIONS, but=TRACED))
def test_torch_export_of_every_position(position: str) -> None:
    """A language model, fed at once and step by step, with padding on either side."""
    sample = make_sample(model_of("model.family=lm", *POSITIONS[position]))
    agreement = compare(sample, ProgramEngine(trace_graphs(sample.model), sample))
    require_agreement(agreement, "torch-export")
    assert agreement.worst < 1e-5
    assert agreement.same == agreement.answers == 24


def test_torch_export_of_an_encoder_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Right as it is; positions that are off by one in the graph alone are noticed."""
    ngrams = ["model.encoder.ngrams.reach=2", "model.encoder.ngrams.buckets=50"]
    sample = make_sample(model_of("model.family=seq2seq", "model.cross.position.kind=rope", *ngrams))
    assert compare(sample, ProgramEngine(trace_graphs(sample.model), sample)).holds(1e-5)
    right = absolute._sinusoids_at
    monkeypatch.setattr(absolute, "_sinusoids_at", lambda positions, *rest, **more: right(positions + 1, *rest, **more))
    wrong = compare(sample, ProgramEngine(trace_graphs(sample.model), sample))
    with pytest.raises(ClearheadError, match="computes something else"):
        require_agreement(wrong, "torch-export")


CONVOLVED = [size for size in SMALL if "feedforward" not in size and "heads" not in size]


def test_a_convolutional_encoder_goes_through_both_exporters(tmp_path: Path) -> None:
    """Padding is moved without sorting, which ONNX cannot do, and for lines of any length."""
    recipe = read_recipe(None, *CONVOLVED, "model.family=encoder", "model.encoder.kind=convolutional")
    sample = make_sample(SavedModel(build(recipe, seed=1).eval(), recipe, {}))
    assert compare(sample, ProgramEngine(trace_graphs(sample.model), sample)).holds(1e-5)
    write_onnx(sample, tmp_path)
    assert compare(sample, OnnxEngine(tmp_path, sample.model)).holds(1e-5)


def test_a_classifier_of_images_goes_through_both_exporters(tmp_path: Path) -> None:
    """Its graph reads pixels, and nothing beside them."""
    patches = "model.patches={height=8, width=8, channels=1, size=4}"
    sample = make_sample(model_of("model.family=classifier", patches))
    assert compare(sample, ProgramEngine(trace_graphs(sample.model), sample)).holds(1e-5)
    write_onnx(sample, tmp_path)
    assert compare(sample, OnnxEngine(tmp_path, sample.model)).holds(1e-5)


def test_a_convolutional_decoder_is_refused() -> None:
    recipe = read_recipe(None, *CONVOLVED, "model.family=lm", "model.decoder.kind=convolutional")
    with pytest.raises(UnsupportedModel, match="convolutional decoder"):
        trace_graphs(build(recipe, seed=1).eval())


def test_a_recurrent_model_is_refused() -> None:
    sizes = [size for size in SMALL if "heads" not in size and "feedforward" not in size]
    recipe = read_recipe(None, *sizes, "model.family=recurrent")
    with pytest.raises(UnsupportedModel, match="recurrent encoders and decoders"):
        trace_graphs(build(recipe, seed=1).eval())


def test_onnxruntime_of_a_classifier(tmp_path: Path) -> None:
    """tests/interop/test_engines.py has the other families: a conversion for ONNX Runtime is such an export."""
    sample = make_sample(model_of("model.family=classifier", *POSITIONS["disentangled"]))
    write_onnx(sample, tmp_path)
    agreement = compare(sample, OnnxEngine(tmp_path, sample.model))
    assert agreement.holds(1e-5)
    assert agreement.answers == 24


def test_a_wrong_graph_is_noticed(tmp_path: Path) -> None:
    """The graph of another model with the same shapes: numbers and answers differ."""
    sample = make_sample(model_of("model.family=lm"))
    other = build(sample.saved.recipe, seed=2).eval()
    agreement = compare(sample, ProgramEngine(trace_graphs(other), sample))
    assert agreement.worst > 0.1
    assert not agreement.holds(1e-4)
