"""Graphs with open lengths compute what the model computes: every position scheme and family, in two formats."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import clearhead
from clearhead.errors import ClearheadError, UnsupportedModel
from clearhead.interop.exporting import make_sample
from clearhead.interop.exporting.onnx import OnnxEngine, write_onnx
from clearhead.interop.exporting.torch_export import ProgramEngine, trace_graphs
from clearhead.interop.exporting.verifying import compare, require_agreement
from clearhead.models import SavedModel, build
from clearhead.positions import absolute
from clearhead.recipe import read_recipe
from clearhead.training import prepare
from tests.models.zoo import SIZES
from tests.thorough import proved_later
from tests.training.toy import write_pairs

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
    return SavedModel(build(recipe, seed=1).eval(), recipe, {})


TRACED = ("learned", "alibi", "t5", "rope, grouped queries")
"""The others are traced by tests below (sinusoids, Shaw's, disentangled), or within one of these (RoPE)."""


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
    sample = make_sample(model_of("model.family=seq2seq"))
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


@pytest.mark.parametrize(
    "overrides",
    [["model.family=lm", "model.position.kind=shaw"], ["model.family=classifier", *POSITIONS["disentangled"]]],
)
def test_onnxruntime_of_other_families(overrides: list[str], tmp_path: Path) -> None:
    sample = make_sample(model_of(*overrides))
    write_onnx(sample, tmp_path)
    agreement = compare(sample, OnnxEngine(tmp_path, sample.model))
    assert agreement.holds(1e-5)
    assert agreement.answers == 24


def test_an_encoder_decoder_answers_without_clearhead(tmp_path: Path) -> None:
    """answer.py imports numpy, onnxruntime and tokenizers alone, and gives the model's own greedy answers."""
    data = write_pairs(tmp_path / "pairs.tsv", 60)
    ready = prepare(read_recipe(None, f'data.train="{data}"', *SMALL, "model.position.kind=t5"), tmp_path / "run")
    saved = SavedModel(build(ready.recipe, seed=5).eval(), ready.recipe, ready.tokenizers)
    clearhead.save_model(saved, tmp_path / "model.safetensors")
    texts = ["abc", "gfa", "bade"]
    exported = clearhead.export_model(tmp_path / "model.safetensors", "onnx", tmp_path / "out", lines=texts)
    assert exported.lines == 3
    assert {"encoder.onnx", "decoder.onnx", "answer.py", "model.json"} <= exported.files.keys()
    about = json.loads((tmp_path / "out" / "model.json").read_text())
    assert about["graphs"]["decoder"]["inputs"]["past_0_key"] == ["lines", None, "past", None]
    there = str(tmp_path / "out" / "answer.py")
    program = "import sys; sys.modules['clearhead'] = None; sys.modules['torch'] = None; import runpy; "
    program += f"sys.argv = ['answer.py', *{texts!r}]; runpy.run_path({there!r}, run_name='__main__')"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    mine = clearhead.load(tmp_path / "model.safetensors")
    assert printed.splitlines() == mine.generate(texts, beam_size=1, max_length=256)


def test_a_wrong_graph_is_noticed(tmp_path: Path) -> None:
    """The graph of another model with the same shapes: numbers and answers differ."""
    sample = make_sample(model_of("model.family=lm"))
    other = build(sample.saved.recipe, seed=2).eval()
    agreement = compare(sample, ProgramEngine(trace_graphs(other), sample))
    assert agreement.worst > 0.1
    assert not agreement.holds(1e-4)
