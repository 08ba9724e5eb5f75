"""ModernBERT, ALBERT and ELECTRA compute what transformers computes: each layer to 1e-5, heads, sizes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.costing import cost
from clearhead.errors import UnsupportedModel
from clearhead.interop import load_huggingface
from clearhead.interop.huggingface import PLANS
from clearhead.interop.huggingface.config import ForeignConfig
from clearhead.interop.huggingface.weights import ForeignWeights
from clearhead.models import load_model, save_model
from clearhead.recipe import recipe_from
from tests.interop import references
from tests.interop.test_parity import SOURCE, largest_difference, record, with_pad

__all__ = ["record"]

MODERN, NARROW = references.MODERN, references.NARROW
make = references.encoder

ENCODERS: dict[str, Callable[[str], Any]] = {
    "ModernBERT, as published: windows, two rotations": lambda head: make("ModernBert", head, **MODERN),
    "ModernBERT, biases": lambda head: make(
        "ModernBert", head, **MODERN, attention_bias=True, mlp_bias=True, norm_bias=True, classifier_bias=True
    ),
    "ALBERT, shared layers, narrow tables": lambda head: make("Albert", head, **NARROW),
    "ELECTRA, narrow tables": lambda head: make("Electra", head, **NARROW),
    "ELECTRA, wide tables": lambda head: make("Electra", head, embedding_size=48),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_encoders_agree_layer_by_layer(name: str, tmp_path: Path, record: Callable[[str, float], None]) -> None:
    """References: transformers' ModernBertModel, AlbertModel, ElectraModel; padded lines."""
    reference = references.randomise(ENCODERS[name]("Model"))
    saved = load_huggingface(references.save(reference, tmp_path))
    model: Any = saved.model
    ids = with_pad(SOURCE, 0)
    with torch.no_grad():
        theirs = reference(input_ids=ids, attention_mask=ids != 0, output_hidden_states=True)
        states = model(ids)
    torch.testing.assert_close(states[ids != 0], theirs.last_hidden_state[ids != 0], atol=1e-5, rtol=0)
    hidden = [*theirs.hidden_states[:-1], theirs.last_hidden_state]
    if "ALBERT" in name:  # its first one stands before the map
        torch.testing.assert_close(model.pool(states), theirs.pooler_output, atol=1e-5, rtol=0)
        assert len({id(layer.attention.query.weight) for layer in model.encoder.layers}) == 1
        with torch.no_grad():
            hidden = [
                reference.encoder.embedding_hidden_mapping_in(reference.embeddings(ids)),
                *_albert(reference, ids),
            ]
    record(f"{name} (d=48, h=3, 3 layers)", largest_difference(model.encoder, hidden, lambda: model(ids), ids != 0))


def _albert(reference: Any, ids: torch.Tensor) -> list[torch.Tensor]:
    """What the one layer puts out, each time."""
    (group,) = reference.encoder.albert_layer_groups
    found: list[torch.Tensor] = []
    handle = group.register_forward_hook(lambda _module, _inputs, out: found.append(out))
    reference(input_ids=ids, attention_mask=ids != 0)
    handle.remove()
    return found


@pytest.mark.parametrize("name", [name for name in ENCODERS if "wide" not in name])
def test_heads_for_masked_tokens_agree(name: str, tmp_path: Path, record: Callable[[str, float], None]) -> None:
    """References: transformers' ModernBertForMaskedLM, AlbertForMaskedLM, ElectraForMaskedLM; and our own file."""
    reference = references.randomise(ENCODERS[name]("ForMaskedLM"))
    saved = load_huggingface(references.save(reference, tmp_path / "theirs"))
    save_model(saved, tmp_path / "ours.safetensors")
    model: Any = load_model(tmp_path / "ours.safetensors").model
    ids = with_pad(SOURCE, 0)
    with torch.no_grad():
        theirs = reference(input_ids=ids, attention_mask=ids != 0).logits
        ours = model.output(model(ids))
    record(f"{name} (logits of tokens)", float((ours - theirs)[ids != 0].abs().max() / theirs.abs().max()))


def test_a_classifier_of_albert_agrees(tmp_path: Path, record: Callable[[str, float], None]) -> None:
    """Reference: transformers' AlbertForSequenceClassification."""
    reference = references.randomise(make("Albert", "ForSequenceClassification", **NARROW, num_labels=5))
    model = load_huggingface(references.save(reference, tmp_path)).model
    ids = with_pad(SOURCE, 0)
    with torch.no_grad():
        difference = model(ids) - reference(input_ids=ids, attention_mask=ids != 0).logits
    record("ALBERT classifier (logits)", float(difference.abs().max()))


@pytest.mark.parametrize(
    ("name", "head", "settings"),
    [
        ("Albert", "Model", NARROW | {"num_hidden_groups": 3}),
        ("Albert", "Model", {"embedding_size": 48}),
        ("Electra", "ForSequenceClassification", NARROW),
        ("ModernBert", "ForSequenceClassification", MODERN),
        (
            "ModernBert",
            "Model",
            MODERN | {"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 4.0}}},
        ),
    ],
)
def test_what_cannot_be_expressed_is_refused(name: str, head: str, settings: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel):
        load_huggingface(references.save(make(name, head, **settings), tmp_path))


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"num_attention_heads": 0}, "num_attention_heads = 0 should be above 0"),
        ({"global_attn_every_n_layers": 0}, "global_attn_every_n_layers = 0 should be above 0"),
        ({"sliding_window": 3}, r"sliding_window = 3 is not supported \(supported: None, 64\)"),
    ],
)
def test_settings_of_modernbert_that_are_refused(settings: dict[str, Any], reason: str) -> None:
    """In transformers sliding_window sets local_attention, which is twice as much."""
    with pytest.raises(UnsupportedModel, match=reason):
        PLANS["modernbert"](ForeignConfig(settings, Path("config.json")), ForeignWeights({}, Path()))
    PLANS["modernbert"](ForeignConfig({"sliding_window": 64}, Path("config.json")), ForeignWeights({}, Path()))


def _wider(model: Any) -> None:
    for layer in model.encoder.layers:
        if hasattr(layer.attention, "window"):
            layer.attention.window += 2


def _first_norm(model: Any) -> None:
    model.encoder.layers[0].around_attention.norm = model.encoder.layers[1].around_attention.norm


def _one_rotation(model: Any) -> None:
    for layer in model.encoder.layers:
        layer.scheme = None


@pytest.mark.parametrize("wrong", [_wider, _first_norm, _one_rotation])
def test_parity_rejects_wrong_encoders(wrong: Callable[[Any], None], tmp_path: Path) -> None:
    """The wrong variants: a window that is too wide, a norm too many, one rotation for all layers."""
    reference = references.randomise(ENCODERS["ModernBERT, as published: windows, two rotations"]("Model"))
    model: Any = load_huggingface(references.save(reference, tmp_path)).model
    ids = SOURCE[:1]
    with torch.no_grad():
        theirs = reference(input_ids=ids).last_hidden_state
        assert float((model(ids) - theirs).abs().max()) < 1e-5
        wrong(model)
        assert float((model(ids) - theirs).abs().max()) > 1e-2


PUBLISHED: dict[str, tuple[str, int, dict[str, Any], tuple[str, ...]]] = {
    "ModernBERT-base, with its head": ("modernbert", 149_655_232, {}, ("head.dense.weight",)),
    "ALBERT-base-v2": (
        "albert",
        11_683_584,
        {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072, "embedding_size": 128},
        ("pooler.weight",),
    ),
    "ELECTRA-small": ("electra", 13_483_008, {}, ()),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_cost_knows_the_published_sizes(name: str) -> None:
    """References: what transformers counts; the weights of ALBERT's one layer count once, its work in every layer."""
    kind, parameters, settings, present = PUBLISHED[name]
    weights = ForeignWeights({weight: torch.empty(0) for weight in present}, Path())
    plan = PLANS[kind](ForeignConfig(settings, Path("config.json")), weights)
    found = cost(recipe_from({"model": plan.model}, name=name))
    assert found.parameters.at() == parameters
    if kind == "albert":
        alone = cost(recipe_from({"model": plan.model | {"shared": False}}, name=name))
        assert found.macs.at(n=64) == alone.macs.at(n=64)
        assert alone.parameters.at() > 7 * parameters
