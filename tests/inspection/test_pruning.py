"""Heads that are removed: the smaller model computes what the whole one computes with these heads switched off."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from clearhead.costing import cost
from clearhead.decoding import lean_decoder
from clearhead.errors import RecipeError
from clearhead.inspection import head_names, heads_off, without_heads
from clearhead.models import build, count_parameters
from clearhead.recipe import Recipe, kinds, read_recipe, recipe_from, recipe_table
from tests.inspection.test_gates import GRIDS, TEXT, outputs, seen
from tests.models.zoo import GRID_VARIANTS, IMAGES, VARIANTS

SIZES = ["model.layers=2", "model.width=16", "model.heads=4", "model.feedforward.width=20"]
VOCABULARY = ["model.vocabulary.source=40", "model.vocabulary.target=40"]
REFUSED = {
    "no projections, no W_O": "without projections a head is a slice of the tokens",
    "attention axial": "axial attention has heads along rows and along columns",
    "attention axial with relative-2d": "axial attention has heads along rows and along columns",
}
REMOVED = ["encoder.1.2", "encoder.2.1", "encoder.2.4", "decoder.1.1", "decoder.2.3", "cross.1.4", "cross.2.1"]
OTHERS = [name.replace(".2.1", ".2.2") for name in REMOVED]


def made(recipe: Recipe) -> Any:
    """A model in eval mode whose weights are large enough for every part to matter."""
    model, generator = build(recipe, seed=5).eval(), torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3, generator=generator)
    return model


def check(recipe: Recipe, run: Any, variant: str, removed: list[str], others: list[str]) -> None:
    model = made(recipe)
    if variant in REFUSED:
        with pytest.raises(RecipeError, match=REFUSED[variant]):
            without_heads(model, recipe, removed)
        return
    smaller, new = without_heads(model, recipe, removed)
    with heads_off(model, removed):
        off = run(model)
    torch.testing.assert_close(run(smaller), off, atol=1e-5, rtol=1e-5)
    # the wrong variant: another head of the same layer
    assert not torch.allclose(run(without_heads(model, recipe, others)[0]), off, atol=1e-3)
    assert count_parameters(smaller) == cost(new).parameters.at() < count_parameters(model)
    assert recipe_from(recipe_table(new)).model == new.model
    assert len(head_names(smaller)) == len(head_names(model)) - len(removed)


@pytest.mark.parametrize("variant", TEXT)
@torch.no_grad()
def test_without_heads_equals_heads_off(variant: str) -> None:
    changes = [change for change in VARIANTS[variant] if "cross.attention.heads" not in change]
    recipe = read_recipe(None, *SIZES, *VOCABULARY, *changes)
    check(recipe, outputs, variant, REMOVED, OTHERS)


@pytest.mark.parametrize("variant", GRIDS)
@torch.no_grad()
def test_the_same_on_grids(variant: str) -> None:
    recipe = read_recipe(None, "model.family=classifier", *SIZES, *IMAGES, *GRID_VARIANTS[variant])
    check(recipe, seen, variant, ["encoder.1.2", "encoder.2.4"], ["encoder.1.2", "encoder.2.3"])


def test_every_registered_attention_is_tested_here() -> None:
    """One that is registered and can neither lose heads nor says why fails above; one that is missing fails here."""
    tested = {name.removeprefix("attention ").split(" with ")[0] for name in [*TEXT, *GRIDS] if "attention " in name}
    assert tested >= set(kinds("attention"))


def test_heads_that_share_keys_stay() -> None:
    recipe = read_recipe(None, "model.family=lm", *SIZES, *VOCABULARY, "model.attention.kv_heads=2")
    with pytest.raises(RecipeError, match="heads that share keys and values cannot be removed one by one"):
        without_heads(made(recipe), recipe, ["decoder.1.1"])


@torch.no_grad()
def test_heads_are_removed_again() -> None:
    """ALiBi's slopes stay with their heads, and names count those that are there."""
    recipe = read_recipe(None, "model.family=lm", *SIZES, *VOCABULARY, "model.position.kind=alibi")
    model = made(recipe)
    first, between = without_heads(model, recipe, ["decoder.1.1"])
    second, last = without_heads(first, between, ["decoder.1.1", "decoder.2.4"])  # decoder.1.2 of the whole model
    at_once, recipe = without_heads(model, recipe, ["decoder.1.1", "decoder.1.2", "decoder.2.4"])
    ids = torch.randint(4, 40, (2, 9))
    assert torch.equal(second(ids), at_once(ids))
    assert last.model == recipe.model
    assert last.model.decoder.attention.kept == [[3, 4], [1, 2, 3]]  # type: ignore[attr-defined]


def test_a_smaller_model_learns_and_decodes() -> None:
    """Gradients reach the shared table of T5; the fast decoder takes a model whose layers differ."""
    recipe = read_recipe(None, *SIZES, *VOCABULARY, "model.position.kind=t5")
    smaller: Any
    smaller, _ = without_heads(made(recipe), recipe, REMOVED)
    outputs(smaller).square().mean().backward()
    table = smaller.encoder.scheme.table.weight
    assert table.grad is not None
    assert table.grad.abs().sum() > 0
    plain = read_recipe(None, *SIZES, *VOCABULARY)
    cut, _ = without_heads(made(plain), plain, REMOVED)
    lean = lean_decoder(cut)
    assert lean is not None
    source, start = torch.randint(4, 40, (3, 7)), torch.full((3, 1), 1)
    with torch.inference_mode():
        step = lean.reading(source).step(start)[:, 0]
        torch.testing.assert_close(step, cut(source, start)[:, 0], atol=2e-4, rtol=1e-4)


def test_the_last_head_stays() -> None:
    recipe = read_recipe(None, *SIZES, *VOCABULARY)
    with pytest.raises(RecipeError) as caught:
        without_heads(made(recipe), recipe, [f"cross.2.{head}" for head in (1, 2, 3, 4)])
    assert str(caught.value).startswith("cross.2: would keep no head")


@pytest.mark.parametrize(
    ("kept", "reason"),
    [
        ("[[1]]", "names the heads of 1 layers, and there are 2"),
        ("[[1], [5]]", "layer 2: [5] is not a rising list of heads from 1 to 4"),
        ("[[2, 1], [3]]", "layer 1: [2, 1] is not a rising list of heads from 1 to 4"),
    ],
)
def test_a_recipe_says_which_heads_a_layer_keeps(kept: str, reason: str) -> None:
    with pytest.raises(RecipeError) as caught:
        read_recipe(None, *SIZES, f"model.encoder.attention.kept={kept}")
    assert reason in str(caught.value)


def _params(model: nn.Module) -> Tensor:
    return torch.cat([parameter.flatten() for parameter in model.parameters()])


def test_the_model_itself_stays_as_it_is() -> None:
    recipe = read_recipe(None, *SIZES, *VOCABULARY)
    model = made(recipe)
    before = _params(model).clone()
    smaller, _ = without_heads(model, recipe, ["encoder.1.1"])
    with torch.no_grad():
        for parameter in smaller.parameters():
            parameter.zero_()
    assert torch.equal(_params(model), before)
