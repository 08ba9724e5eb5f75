"""Space: bytes that autograd keeps, exact on the real backend; the cache's own bytes; what optimizers hold."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest
import torch
from sympy import expand

from clearhead.attention import Cache
from clearhead.blocks import Stack
from clearhead.costing import cost
from clearhead.costing.tracing import attention_path, saved_bytes, written_out
from clearhead.recipe import read_recipe
from clearhead.training.optimizer import make_optimizers
from tests.costing.mechanisms import (
    CASES,
    HEADS,
    TWO_LAYERS,
    Case,
    as_family,
    each,
    make,
    model_of,
    named,
    priced,
    rejects,
    worth,
    wrong_variants,
)

FUSED = [case for case in CASES if "isentangled" not in case.name or case.reads == "text"]

AGAIN = [case for case in FUSED if "recurrent" not in case.name]


@contextmanager
def computed_again(model: Any, on: bool) -> Iterator[None]:
    """Stacks that keep the inputs of their layers alone, if ``on``."""
    stacks = [part for part in model.modules() if isinstance(part, Stack)]
    assert stacks or not on
    for stack in stacks:
        stack.recompute = on
    try:
        yield
    finally:
        for stack in stacks:
            stack.recompute = False


def check(case: Case, path: str) -> None:
    whole = priced(case)[1]
    model, places = model_of(case, path), case.places()
    formula = whole.saved if path == "explicit" else whole.fused.saved
    kept = []
    with written_out():  # oneDNN's LSTM has a workspace of its own
        for place in places:
            inputs = case.inputs(place)
            kept.append(saved_bytes(lambda inputs=inputs: model(*inputs), model))  # type: ignore[misc]
    assert [formula.at(**place) for place in places] == kept
    assert rejects(formula.numbers, places, kept)


@each(CASES)
def test_saved_activations_are_exact_to_the_byte(case: Case) -> None:
    """Attention that holds its weights, on the real backend."""
    check(case, "explicit")


@each(FUSED)
def test_saved_activations_are_exact_to_the_byte_where_attention_is_fused(case: Case) -> None:
    """Attention that never holds them: torch's kernel, and blocks of disentangled attention."""
    check(case, "fused")


@pytest.mark.parametrize("position", ["t5", "shaw"])
@pytest.mark.parametrize("setting", ["choice=hard", "cap=2.0", "score=additive"])
def test_what_must_form_its_scores_keeps_no_distances_by_blocks(setting: str, position: str) -> None:
    """Positions act by blocks where weights are never held; a choice, a cap or a sum of q and k holds them."""
    if (setting, position) == ("score=additive", "shaw"):
        return  # vectors of distances need products
    overrides = ("model.family=lm", HEADS, f"model.attention.{setting}", f"model.position.kind={position}")
    case = Case(f"lm: {setting}, {position}", overrides)
    check(case, "fused")
    check(case, "explicit")


@each(AGAIN)
def test_what_is_kept_is_exact_to_the_byte_where_layers_are_computed_again(case: Case) -> None:
    """The input of each layer, the memory, and what is outside of layers."""
    model, places = model_of(case, "fused"), case.places()
    whole = cost(case.recipe(TWO_LAYERS, "training.recompute=true"))
    kept = []
    with computed_again(model, True):
        for place in places:
            inputs = case.inputs(place)
            kept.append(saved_bytes(lambda inputs=inputs: model(*inputs), model))  # type: ignore[misc]
    assert [whole.fused.saved.at(**place) for place in places] == kept
    assert [whole.saved.at(**place) for place in places] == kept  # whatever attention holds, it is not kept
    assert rejects(whole.saved.numbers, places, kept)
    everything = priced(case)[1].fused.saved
    assert all(everything.at(**place) > bytes_ for place, bytes_ in zip(places, kept, strict=True))


HALVED = "training.precision=bfloat16"


def kept_in_bfloat16(case: Case, path: str, places: list[dict[str, int]], *, again: bool = False) -> list[int]:
    """Bytes that autograd keeps when training computes in bfloat16."""
    model, kept = model_of(case, path), []
    with written_out(), computed_again(model, again), torch.autocast("cpu", torch.bfloat16):
        for place in places:
            inputs = case.inputs(place)
            kept.append(saved_bytes(lambda inputs=inputs: model(*inputs), model))  # type: ignore[misc]
    return kept


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
@each(CASES)
def test_bfloat16_keeps_what_the_formula_says_to_the_byte(case: Case) -> None:
    """Explicit, fused, and with layers computed again; a formula that halves everything is rejected."""
    places, in_float32 = case.places(2), priced(case)[1].saved
    whole = cost(case.recipe(TWO_LAYERS, HALVED))
    kept = kept_in_bfloat16(case, "explicit", places)
    assert [whole.saved.at(**place) for place in places] == kept
    assert [in_float32.at(**place) / 2 for place in places] != kept
    assert rejects(whole.saved.numbers, places, kept)
    if case in FUSED:
        assert [whole.fused.saved.at(**place) for place in places] == kept_in_bfloat16(case, "fused", places)
    if case in AGAIN:
        formula = cost(case.recipe(TWO_LAYERS, HALVED, "training.recompute=true")).fused.saved
        kept = kept_in_bfloat16(case, "fused", places, again=True)
        assert [formula.at(**place) for place in places] == kept


@pytest.mark.parametrize(
    "overrides",
    [
        ("model.family=lm", "model.attention.projections=false", "model.position.kind=t5"),
        ("model.family=lm", "model.residual=false", "model.norm.affine=false"),
        ("model.family=recurrent", "model.decoder.start=zero"),
    ],
    ids=lambda overrides: overrides[1],
)
def test_bfloat16_keeps_what_the_formula_says_of_what_is_float32_elsewhere(overrides: tuple[str, ...]) -> None:
    """Queries that no product made, norms without a gain of bfloat16, first states of zero in a step of our own."""
    case = Case(
        "", (*overrides, HEADS) if "lm" in overrides[0] else overrides, "pair" if len(overrides) < 3 else "text"
    )
    places, whole = case.places(2), cost(case.recipe(TWO_LAYERS, HALVED))
    assert [whole.saved.at(**place) for place in places] == kept_in_bfloat16(case, "explicit", places)
    assert [whole.fused.saved.at(**place) for place in places] == kept_in_bfloat16(case, "fused", places)


VIEWS = ("TBackward0", "TransposeBackward0", "PermuteBackward0", "SliceBackward0", "AliasBackward0")


def _is_of_a_weight(tensor: torch.Tensor) -> bool:
    """Whether a tensor is a weight, or a view of one, in another type."""
    node: Any = tensor.grad_fn
    while node is not None and (node.name() in VIEWS or node.name() == "ToCopyBackward0"):
        node = node.next_functions[0][0]
    return node is not None and node.name() == "torch::autograd::AccumulateGrad"


@pytest.mark.parametrize(
    "name",
    ["seq2seq: plain", "lm: shared layers", "lm: position shaw", "lm: untied, output bias", "recurrent: luong"],
)
def test_the_copies_of_weights_among_them_are_exact_too(name: str) -> None:
    """Each weight once, however many products and layers it enters; a slice of one each time."""
    case, place = named(name), {"B": 2, "n": 5, "m": 4}
    formula, model = cost(case.recipe(TWO_LAYERS, HALVED)).copies, model_of(case)
    copies: dict[int, torch.Tensor] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype == torch.bfloat16 and _is_of_a_weight(tensor):
            copies.setdefault(tensor.untyped_storage().data_ptr(), tensor)
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor)
    with written_out(), torch.autocast("cpu", torch.bfloat16), hooks:
        result = model(*case.inputs(place))
    assert formula.at(**place) == sum(copy.untyped_storage().nbytes() for copy in copies.values())
    assert rejects(formula.numbers, [place], [formula.at(**place)])
    assert priced(case)[1].copies == 0
    del result


def test_L1_11_memory_grows_with_the_square_of_the_length_unless_attention_is_fused() -> None:
    """L1.11: the memory cost is huge, n² on the explicit path; the fused one keeps a number a row, and grows with n."""
    case = named("encoder: plain")
    recipe = case.recipe()
    model, whole = make(recipe), cost(recipe)

    def difference(path: str, order: int) -> int:
        attention_path(model, path)
        values = []
        for length in (40, 80, 120, 160):
            ids = case.inputs({"B": 2, "n": length, "m": 1})
            values.append(saved_bytes(lambda ids=ids: model(*ids), model))  # type: ignore[misc]
        for _ in range(order):
            values = [after - before for before, after in pairwise(values)]
        return values[0]

    assert difference("explicit", 3) == 0  # a polynomial of degree 2 …
    assert difference("explicit", 2) > 0  # … and not of degree 1
    assert difference("fused", 2) == 0
    assert whole.saved.numbers.as_poly(*whole.saved.numbers.free_symbols).total_degree() == 3  # B·n²
    assert "n**2" not in str(expand(whole.fused.saved.numbers))


@pytest.mark.parametrize("option", ["plain", "free sizes", "position rope", "position shaw", "disentangled alone"])
@pytest.mark.parametrize("family", ["seq2seq", "lm"])
def test_the_cache_holds_what_the_formula_says(family: str, option: str) -> None:
    """L·B·h·(d̃_q + d̃_v)·t numbers, and the same for the source: the bytes that the cache itself counts."""
    case = as_family(f"lm: {option}", family)
    model, formula = model_of(case).eval(), priced(case)[1].step.cache
    state = model.start(torch.full((3, 7), 5)) if family == "seq2seq" else model.start()
    held = []
    with torch.no_grad():
        for _ in range(4):
            model.step(torch.full((3, 1), 5), state)
            assert isinstance(state.cache, Cache)
            held.append(state.cache.nbytes)
    assert [formula.at(B=3, n=7, t=t) for t in range(1, 5)] == held
    for wrong in wrong_variants(formula.numbers):
        assert [worth(wrong, {"B": 3, "n": 7, "t": t}) for t in range(1, 5)] != held


@pytest.mark.parametrize("option", ["local", "local, grouped queries", "local and whole"])
def test_the_cache_of_a_window_is_full_when_the_window_is(option: str) -> None:
    """min(t, r) tokens in a layer that sees a window of r, t in one that sees everything."""
    case = named(f"lm: {option}")
    model, formula = model_of(case).eval(), priced(case)[1].step.cache
    state, held = model.start(), []
    with torch.no_grad():
        for _ in range(8):
            model.step(torch.full((3, 1), 5), state)
            held.append(state.cache.nbytes)
    assert [formula.at(B=3, t=t) for t in range(1, 9)] == held
    grows = "whole" in option
    assert (held[7] > held[6] > held[3]) if grows else (held[7] == held[3] > held[1])


@pytest.mark.parametrize(
    "option", ["plain", "additive", "multiplicative", "position shaw", "position t5", "norm rmsnorm"]
)
@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_optimizers_hold_what_the_formula_says(kind: str, option: str) -> None:
    """Two numbers a parameter and one a tensor for AdamW, one a parameter for Muon's matrices."""
    recipe = named(f"lm: {option}").recipe("model.family=seq2seq", f"training.optimizer.kind={kind}")
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
