"""Space: bytes that autograd keeps, exact on the real backend; the cache's own bytes; what optimizers hold."""

import pytest
import torch
from sympy import expand

from clearhead.attention import Cache
from clearhead.costing import cost
from clearhead.costing.tracing import saved_bytes
from clearhead.recipe import read_recipe
from clearhead.training.optimizer import make_optimizers
from tests.costing.mechanisms import CASES, SIZES, inputs, make, recipe_of, worth, wrong_variants

# from two lines on: a batch of one lets torch look at a tensor where it would otherwise copy it
PLACES = [{"B": 3, "n": 7, "m": 5}, {"B": 2, "n": 5, "m": 9}, {"B": 5, "n": 12, "m": 8}]


@pytest.mark.parametrize("path", ["explicit", "fused"])
@pytest.mark.parametrize(("family", "option"), CASES, ids=[f"{family}: {option}" for family, option in CASES])
def test_saved_activations_are_exact_to_the_byte(family: str, option: str, path: str) -> None:
    """Three layers, so that what layers share counts once; attention that holds its weights, and that does not."""
    recipe = recipe_of(family, option, "model.layers=3")
    model, whole = make(recipe, path), cost(recipe)
    formula = whole.saved if path == "explicit" else whole.fused.saved
    kept = []
    for place in PLACES:
        ids = inputs(family, place["B"], place["n"], place["m"])
        kept.append(saved_bytes(lambda ids=ids: model(*ids), model))  # type: ignore[misc]
    assert [formula.at(**place) for place in PLACES] == kept
    for wrong in wrong_variants(formula.numbers):
        assert [worth(wrong, place) for place in PLACES] != kept


def test_L1_11_memory_grows_with_the_square_of_the_length_unless_attention_is_fused() -> None:
    """L1.11: the memory cost is huge, n² on the explicit path; the fused one keeps one number a row, and grows with n."""
    recipe = recipe_of("encoder", "plain")
    model, whole = make(recipe), cost(recipe)

    def third_difference(path: str, power: int) -> int:
        for part in model.modules():
            if hasattr(part, "path"):
                part.path = path
        sizes = [40, 80, 120, 160]
        values = [saved_bytes(lambda ids=inputs("encoder", 2, n): model(*ids), model) for n in sizes]  # type: ignore[misc]
        for _ in range(power + 1):
            values = [after - before for before, after in zip(values, values[1:], strict=False)]
        return values[0]

    assert third_difference("explicit", 2) == 0  # a polynomial of degree 2 …
    assert third_difference("explicit", 1) > 0  # … and not of degree 1
    assert third_difference("fused", 1) == 0
    assert whole.saved.numbers.as_poly(*whole.saved.numbers.free_symbols).total_degree() == 3  # B·n²
    assert "n**2" not in str(expand(whole.fused.saved.numbers))


@pytest.mark.parametrize("option", ["plain", "free sizes", "position rope", "position shaw"])
@pytest.mark.parametrize("family", ["seq2seq", "lm"])
def test_the_cache_holds_what_the_formula_says(family: str, option: str) -> None:
    """L·B·h·(d̃_q + d̃_v)·t numbers, and the same for the source: the bytes that the cache itself counts."""
    recipe = recipe_of(family, option, "model.layers=2")
    model, formula = make(recipe).eval(), cost(recipe).step.cache
    state = model.start(*inputs("lm", 3, 7)) if family == "seq2seq" else model.start()
    held = []
    with torch.no_grad():
        for _ in range(4):
            model.step(torch.full((3, 1), 5), state)
            assert isinstance(state.cache, Cache)
            held.append(state.cache.nbytes)
    assert [formula.at(B=3, n=7, t=t) for t in range(1, 5)] == held
    for wrong in wrong_variants(formula.numbers):
        assert [worth(wrong, {"B": 3, "n": 7, "t": t}) for t in range(1, 5)] != held


@pytest.mark.parametrize(
    "option", ["plain", "additive", "multiplicative", "position shaw", "position t5", "norm rmsnorm"]
)
@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_optimizers_hold_what_the_formula_says(kind: str, option: str) -> None:
    """Two numbers a parameter and one a tensor for AdamW, one a parameter for Muon's matrices."""
    recipe = recipe_of("seq2seq", option, f"training.optimizer.kind={kind}")
    model = make(recipe)
    optimizers = make_optimizers(model, recipe.training.optimizer)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    for optimizer in optimizers:
        optimizer.step()
    held = sum(
        value.numel() * value.element_size()
        for optimizer in optimizers
        for state in optimizer.state.values()
        for value in state.values()
        if isinstance(value, torch.Tensor)
    )
    formula = cost(recipe)
    assert formula.optimizer.at() == held
    assert formula.gradients.at() == sum(p.numel() * p.element_size() for p in model.parameters())
    assert all(int(wrong) != held for wrong in wrong_variants(formula.optimizer.numbers))


def test_the_average_is_one_more_copy() -> None:
    assert cost("tiny").average == cost("tiny").weights
    assert cost(read_recipe("tiny", "training.average=0")).average.at() == 0
    assert SIZES
