"""Layers with different numbers of heads: the closed forms equal what runs, as they do for equal layers."""

import pytest
import torch
from sympy import expand

from clearhead.costing import cost
from clearhead.costing.tracing import counted_macs, saved_bytes, trace, watch
from clearhead.models import count_parameters
from tests.costing.mechanisms import Case, make, modules_of, rejects, worth
from tests.models.zoo import IMAGES, PLACED

QUANTITIES = ("macs", "operations", "span", "serial_span")
LAYERS = ("model.layers=3", "model.heads=4", "model.feedforward.width=20")
KEPT = "attention.kept=[[1, 3], [1, 3], [2, 3, 4]]"
CAUSAL = ("model.family=lm", *LAYERS, f"model.decoder.{KEPT}")
NONE_WHOLE = ("model.family=encoder", *LAYERS, "model.encoder.attention.kept=[[1, 3], [1, 2, 4], [1, 2, 4]]")
ONE_WHOLE = ("model.family=encoder", *LAYERS, "model.encoder.attention.kept=[[1, 2, 3, 4], [2, 4], [1, 2, 3, 4]]")
LINFORMER = tuple(f"model.encoder.attention.{word}" for word in ("kind=linformer", "rank=3", "length=200"))
CASES = [
    Case("encoder", NONE_WHOLE),
    Case("decoder", CAUSAL),
    Case(
        "encoder-decoder",
        ("model.family=seq2seq", *LAYERS, f"model.encoder.{KEPT}", "model.cross.attention.kept=[[1], [2], [3, 4]]"),
        "pair",
    ),
    Case("t5, no layer whole", (*NONE_WHOLE, "model.position.kind=t5"), exports=False),
    Case("t5, some layers whole", (*ONE_WHOLE, "model.position.kind=t5"), exports=False),
    Case("alibi", (*CAUSAL, "model.position.kind=alibi"), exports=False),
    Case("shaw", (*CAUSAL, "model.position.kind=shaw", "model.position.farthest=2")),
    Case("disentangled", (*CAUSAL, *PLACED), exports=False),
    Case("linformer, a map for each head", (*NONE_WHOLE, *LINFORMER, "model.encoder.attention.sharing=none")),
    Case("multiplicative", (*CAUSAL, "model.attention.score=multiplicative")),
    Case(
        "relative-2d in windows",
        (
            *("model.family=classifier", *LAYERS, *IMAGES, f"model.encoder.{KEPT}"),
            *("model.attention.kind=window", "model.position.kind=relative-2d"),
        ),
        "image",
        exports=False,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_formula_equals_what_runs(case: Case) -> None:
    recipe = case.recipe()
    model, formula, places = make(recipe).eval(), cost(recipe), case.places()
    assert formula.parameters.at() == count_parameters(model)
    seen = []
    for place in places:
        inputs = case.inputs(place)
        with torch.no_grad():
            seen.append(watch(lambda inputs=inputs: model(*inputs), model, inputs))  # type: ignore[misc]
    for name in QUANTITIES:
        mine, measured = getattr(formula, name).numbers, [getattr(one, name) for one in seen]
        assert [int(worth(mine, place)) for place in places] == measured, name
        assert rejects(mine, places, measured)


@pytest.mark.parametrize("path", ["explicit", "fused"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_saved_activations_are_exact_to_the_byte(case: Case, path: str) -> None:
    recipe = case.recipe()
    model, whole, places = make(recipe, path), cost(recipe), case.places()
    formula = whole.saved if path == "explicit" else whole.fused.saved
    kept = []
    for place in places:
        inputs = case.inputs(place)
        kept.append(saved_bytes(lambda inputs=inputs: model(*inputs), model))  # type: ignore[misc]
    assert [formula.at(**place) for place in places] == kept
    assert rejects(formula.numbers, places, kept)


def test_formula_minus_graph_is_zero() -> None:
    """Also module by module: a group of equal layers is found under the first of them."""
    (case,) = (case for case in CASES if case.name == "decoder")
    recipe = case.recipe()
    model, formula = make(recipe), cost(recipe)
    graph = trace(model.eval(), case.inputs({"B": 3, "n": 7, "m": 5}), case.letters, longest=199)
    for name in QUANTITIES:
        assert expand(getattr(formula, name).numbers - graph.total(name)) == 0, name
    modules = dict(model.named_modules())
    paths = [(path, part) for path, part in modules_of(formula) if path in modules]
    assert {path for path, _ in paths} >= {"decoder.layers.0.attention", "decoder.layers.2.attention"}
    for path, part in paths:
        assert expand(part.macs.numbers - graph.macs(path)) == 0, path


@pytest.mark.parametrize("case", [case for case in CASES if case.reads == "pair"], ids=lambda case: case.name)
def test_decoding_costs_what_the_formula_says(case: Case) -> None:
    recipe = case.recipe()
    model, formula = make(recipe).eval(), cost(recipe)
    token, ids = torch.full((3, 1), 5), torch.full((3, 7), 5)
    with torch.no_grad():
        state = model.start(ids)
        read = counted_macs(lambda: model.start(ids))
        steps = [counted_macs(lambda: model.step(token, state)) for _ in range(4)]
    assert formula.decode_macs.at(B=3, n=7, m=4) == read + sum(steps)
    assert [formula.step.macs.at(B=3, n=7, t=t) for t in (2, 3, 4)] == steps[1:]
