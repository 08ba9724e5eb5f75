"""Out to Hugging Face: what comes back is the same, in both directions, and what cannot be the same is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import clearhead
from clearhead.errors import ClearheadError, UnsupportedModel
from clearhead.interop import load_huggingface
from clearhead.interop.exporting import sample
from clearhead.interop.huggingface import exporting
from clearhead.models import SavedModel, build, save_model, stored_tensors
from clearhead.recipe import read_recipe
from tests.interop import references
from tests.interop.references import transformers
from tests.models.zoo import SIZES

ARCHITECTURES = [
    *("marian", "bart", "mbart", "t5", "bert", "bert_classifier", "roberta", "roberta_classifier", "distilbert"),
    *("deberta", "deberta_v2", "gpt2", "bloom", "vit", "vit_classifier"),
    *("m2m100", "llama", "mistral", "qwen2", "qwen3", "phi", "gpt_neox"),
    *("llama_yarn", "qwen3_yarn"),
    *("gemma", "gemma2", "gemma3", "gemma3_slow"),
    *("albert", "albert_classifier", "electra", "modernbert"),
]
LLAMA = [
    *("model.family=lm", "model.position.kind=rope", "model.norm.kind=rmsnorm", "model.feedforward.kind=gated"),
    *("model.feedforward.activation=silu", "model.feedforward.bias=false", "model.attention.bias=false"),
    *("model.embedding.scale=none", "model.embedding.tie=none"),
]
BERT = [
    *("model.family=classifier", "model.position.kind=learned", "model.norm.place=post", "model.norm.eps=1e-12"),
    *("model.embedding.scale=none", "model.embedding.norm=true", "model.feedforward.activation=gelu"),
    "model.embedding.segments=2",
]


@pytest.fixture(autouse=True)
def few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two batches are compared, one line and eight with padding, not four."""
    monkeypatch.setattr(sample, "LINES", 9)


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_in_and_out_again_is_the_same_folder(name: str, tmp_path: Path) -> None:
    """Hugging Face → clearhead → Hugging Face: tensors, names and settings; and back in, bit for bit."""
    there, back = tmp_path / "there", tmp_path / "back"
    model = references.randomise(getattr(references, name)())
    if name == "m2m100":  # which gives padding in an answer no position: it must not be written, as by any trained one
        with torch.no_grad():
            model.get_input_embeddings().weight[model.config.pad_token_id] = 0.0
    model.save_pretrained(there)
    exported = clearhead.export_model(there, "huggingface", back)
    assert equal(load_file(there / "model.safetensors"), load_file(back / "model.safetensors"))
    first, second = (json.loads((folder / "config.json").read_text()) for folder in (there, back))
    assert first == second
    assert equal(*(stored_tensors(load_huggingface(folder).model) for folder in (there, back)))
    assert exported.form == first["architectures"][0]
    assert exported.agreement.worst < 1e-4
    assert exported.agreement.same + exported.agreement.ties == exported.agreement.answers
    assert transformers.AutoModel.from_pretrained(back).config.model_type == first["model_type"]


def saved(tmp_path: Path, *overrides: str) -> Path:
    recipe = read_recipe(None, *SIZES, "model.layers=1", *overrides)
    path = tmp_path / "model.safetensors"
    save_model(SavedModel(build(recipe, seed=1).eval(), recipe, {}), path)
    return path


@pytest.mark.parametrize(
    ("overrides", "form"),
    [
        (["model.embedding.tie=all"], "PegasusForConditionalGeneration"),
        (["model.norm.place=post"], "MarianMTModel"),
        (["model.norm.place=post", "model.position.layout=halves", "model.embedding.tie=all"], "MarianMTModel"),
        (
            ["model.family=lm", "model.position.kind=learned", "model.embedding.scale=none", "model.norm.eps=1e-6"],
            "GPT2LMHeadModel",
        ),
        (
            [*BERT, "model.pooling=first", "model.pooler=true"],
            "BertForSequenceClassification",
        ),  # its classes have no names
    ],
)
def test_our_own_models_come_back_bit_for_bit(tmp_path: Path, overrides: list[str], form: str) -> None:
    """Interleaved sinusoids too, although the features of the folder stand in another order."""
    path = saved(tmp_path, *overrides)
    exported = clearhead.export_model(path, "huggingface", tmp_path / "out")
    assert exported.form == form
    mine, back = clearhead.load_model(path), load_huggingface(tmp_path / "out")
    assert equal(stored_tensors(mine.model), stored_tensors(back.model))
    for part in ("encoder", "decoder"):
        if (stack := getattr(mine.recipe.model, part, None)) is not None:
            position = getattr(back.recipe.model, part).position
            if stack.position.kind == "sinusoidal":  # theirs is a table of 1024, ours has no end
                assert position.trained_length == 1024
                position = position.replaced(trained_length=None)
            assert stack.position == position


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (["model.position.kind=alibi"], r"position\.kind is alibi, \w+ has"),
        (["model.norm.eps_place=outside", "model.embedding.tie=all"], "eps_place is outside, pegasus has inside"),
        (["model.attention.choice=hard", "model.embedding.tie=all"], "choice is hard"),
        (["model.cross.position.kind=rope", "model.embedding.tie=all"], r"cross\.position\.kind is rope"),
        (["model.encoder.ngrams.reach=1", "model.embedding.tie=all"], r"ngrams\.reach is 1"),
        (["model.family=encoder"], "nearest, bert, differs"),
        (
            BERT,
            r"nearest, bert, differs: model\.pooler is False, bert has True; model\.pooling is mean, bert has first$",
        ),
        (["model.position.base=500", "model.embedding.tie=all"], r"position\.base is 500"),
        ([*LLAMA, "model.norm.unit_offset=true"], r"llama, differs: model\.decoder\.norm\.unit_offset is True"),
        ([*LLAMA, "model.position.features=2"], r"llama, differs: model\.decoder\.position\.features is 2"),
    ],
)
def test_what_no_architecture_expresses_is_refused(tmp_path: Path, overrides: list[str], reason: str) -> None:
    model = clearhead.load_model(saved(tmp_path, *overrides))
    with pytest.raises(UnsupportedModel, match=reason):
        exporting.write_huggingface(model, tmp_path / "out", banned=[])
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]


def test_a_turned_matrix_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrong variant: W_Q of one layer written as its transpose has the same shape, and another meaning."""
    right = exporting._foreign_tensors

    def turned(*given: Any) -> dict[str, torch.Tensor]:
        tensors = right(*given)
        name = next(name for name in tensors if name.endswith("decoder.layers.0.self_attn.q_proj.weight"))
        return tensors | {name: tensors[name].T.contiguous()}

    monkeypatch.setattr(exporting, "_foreign_tensors", turned)
    with pytest.raises(ClearheadError, match="computes something else than the model"):
        clearhead.export_model(saved(tmp_path, "model.norm.place=post"), "huggingface", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]
