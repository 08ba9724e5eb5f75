"""Parameters: equal to the built model for every preset and mechanism, and to the counts that were published."""

import pytest
import torch

from clearhead.attention import RelativeTable
from clearhead.blocks import Layer
from clearhead.costing import cost
from clearhead.models import count_parameters
from clearhead.recipe import Recipe, module_of, preset_names, read_recipe
from tests.costing.mechanisms import CASES, Case, each, modules_of, priced, wrong_variants

PUBLISHED = {
    "bert-base": 109_482_240,
    "roberta-base": 124_645_632,
    "gpt2": 124_439_808,
    "t5-small": 60_506_624,
    "bart-base": 139_420_416,
    "deberta-v3-base": 183_831_552,
    "vit-b16": 86_567_656,
    "transformer-base": 63_082_496,
}


def built(recipe: Recipe) -> torch.nn.Module:
    """The model, without memory for its weights."""
    with torch.device("meta"):
        model: torch.nn.Module = module_of(recipe.model).from_spec(recipe.model)
    return model


def _own(module: torch.nn.Module, shared: set[int]) -> int:
    """Parameters of a part; what all layers of a stack share counts with the stack, not with a layer."""
    inside_a_layer = not any(isinstance(part, Layer) for part in list(module.modules())[1:])
    return sum(p.numel() for p in module.parameters() if not (inside_a_layer and id(p) in shared))


@pytest.mark.parametrize("preset", preset_names())
def test_presets_have_as_many_parameters_as_the_formula_says(preset: str) -> None:
    """Also part by part; a formula with one term dropped or doubled is rejected."""
    recipe = read_recipe(preset)
    model, formula = built(recipe), cost(recipe)
    counted = count_parameters(model)
    assert formula.parameters.at() == counted == PUBLISHED.get(preset, counted)
    assert all(
        int(wrong.xreplace(dict(formula.sizes))) != counted for wrong in wrong_variants(formula.parameters.expression)
    )
    modules = dict(model.named_modules())
    tables = [part for part in model.modules() if isinstance(part, RelativeTable)]
    shared = {id(parameter) for table in tables for parameter in table.parameters()}
    for path, part in modules_of(formula):
        if path in modules and path not in ("output", "decoder", "decoder.embedding"):  # which may be tied
            assert part.parameters.at() == _own(modules[path], shared), path


@each(CASES)
def test_mechanisms_have_as_many_parameters_as_the_formula_says(case: Case) -> None:
    recipe, formula = priced(case)
    assert formula.parameters.at() == count_parameters(built(recipe))


@pytest.mark.parametrize("tie", ["none", "output", "inputs", "all"])
def test_tied_matrices_count_once(tie: str) -> None:
    recipe = read_recipe("tiny", f"model.embedding.tie={tie}")
    formula = cost(recipe)
    assert formula.parameters.at() == count_parameters(built(recipe))
    copies = {"none": 3, "output": 2, "inputs": 2, "all": 1}[tie]
    assert formula.tables.at() == copies * 10_000 * 128
    assert formula.without_embeddings.at() == formula.parameters.at() - formula.tables.at()


def test_unused_rows_before_learned_positions_count() -> None:
    """BART's table has two, RoBERTa's as many as its padding needs."""
    recipe = read_recipe("tiny", "model.position.kind=learned", "model.position.size=20", "model.position.offset=2")
    model = built(recipe)
    assert cost(recipe).parameters.at() == count_parameters(model)
    assert [len(table) for name, table in model.named_parameters() if "position" in name] == [22, 22]


def test_a_layer_less() -> None:
    """What README shows."""
    assert cost("bert-base", "model.layers=11").parameters.at() == 102_394_368


def test_vit_multiplies_as_often_as_published() -> None:
    """ViT-B/16: 17,563,828,224 multiply-accumulates for an image."""
    assert cost("vit-b16").macs.at(B=1) == 17_563_828_224
    assert cost("vit-b16", "model.layers=11").macs.at(B=1) != 17_563_828_224
