"""Work and span: the closed form minus the sum over the graph that torch.export traces, with open lengths, is 0.

`pytest -s tests/costing/test_work.py` prints a line for every mechanism.
"""

import pytest
from sympy import expand

from clearhead.costing import cost
from clearhead.costing.tracing import trace
from clearhead.recipe import kinds, slots
from tests.costing.mechanisms import CASES, inputs, letters, make, modules_of, recipe_of, worth, wrong_variants


SPREAD = ("position t5", "position alibi")
"""Spread their bias by an operator of torch (unfold) that wants a number where the length would stay open."""
OPEN_CASES = [case for case in CASES if case[1] not in SPREAD]
FIXED_CASES = [case for case in CASES if case[1] in SPREAD and case[0] != "seq2seq"]
QUANTITIES = ("macs", "operations", "span", "serial_span")


def titles(cases: list[tuple[str, str]]) -> list[str]:
    return [f"{family}: {option}" for family, option in cases]


@pytest.mark.parametrize(("family", "option"), OPEN_CASES, ids=titles(OPEN_CASES))
def test_formula_minus_graph_is_zero(family: str, option: str) -> None:
    """Multiply-accumulates, other operations and both spans, of the model and of each of its modules."""
    recipe = recipe_of(family, option)
    model, formula = make(recipe), cost(recipe)
    graph = trace(model.eval(), inputs(family), letters(family), longest=199)
    for name in QUANTITIES:
        mine, traced = getattr(formula, name).numbers, graph.total(name)
        difference = expand(mine - traced)
        print(f"{family + ': ' + option:<50} {name:<12} formula − graph = {difference}")
        assert difference == 0
        assert all(expand(wrong - traced) != 0 for wrong in wrong_variants(mine))
    modules = dict(model.named_modules())
    checked = 0
    for path, part in modules_of(formula):
        if path in modules:
            checked += 1
            assert expand(part.macs.numbers - graph.macs(path)) == 0, path
            assert expand(part.operations.numbers - graph.operations(path)) == 0, path
    assert checked >= 8


@pytest.mark.parametrize(("family", "option"), FIXED_CASES, ids=titles(FIXED_CASES))
def test_formula_equals_graphs_of_more_sizes_than_it_has_terms(family: str, option: str) -> None:
    """Where a length cannot stay open: graphs of fixed sizes, more of them than the polynomial has coefficients."""
    recipe = recipe_of(family, option)
    model, formula = make(recipe).eval(), cost(recipe)
    places = [{"B": 2 + size % 3, "n": size} for size in range(2, 10)]
    graphs = [trace(model, inputs(family, **_sizes(place)), [(None, None)]) for place in places]
    for name in QUANTITIES:
        mine, traced = getattr(formula, name).numbers, [graph.total(name) for graph in graphs]
        assert len(expand(mine).as_ordered_terms()) < len(places)
        differences = [worth(mine, place) - value for place, value in zip(places, traced, strict=True)]
        print(f"{family + ': ' + option:<50} {name:<12} formula − graph = {set(differences)} at {len(places)} sizes")
        assert not any(differences)
        for wrong in wrong_variants(mine):
            assert [worth(wrong, place) for place in places] != traced


def _sizes(place: dict[str, int]) -> dict[str, int]:
    return {"batch": place["B"], "source": place["n"]}


def test_equal_layers_are_multiplied() -> None:
    """Two layers of a decoder over a memory: the first one waits for the encoder, the second does not."""
    recipe = recipe_of("seq2seq", "plain", "model.layers=2")
    graph = trace(make(recipe).eval(), inputs("seq2seq"), letters("seq2seq"), longest=199)
    formula = cost(recipe)
    assert expand(formula.macs.numbers - graph.macs()) == 0
    assert expand(formula.span.numbers - graph.span) == 0
    assert expand(formula["decoder"]["layers"].macs.numbers - graph.macs("decoder.layers.1")) == 0


@pytest.mark.parametrize(
    ("slot", "name"), [(slot, name) for slot in slots() for name in kinds(slot)], ids=lambda part: str(part)
)
def test_every_registered_mechanism_has_a_formula_and_a_proof(slot: str, name: str) -> None:
    """A kind that is registered without a formula fails here, and so does one that no case above proves."""
    assert kinds(slot)[name].load_cost() is not None, f"register({slot} {name!r}) lacks cost=…"
    proved = {(part.slot, part.name()) for family, option in CASES for part in _parts(recipe_of(family, option).model)}
    assert (slot, name) in proved


def _parts(spec: object) -> list:  # type: ignore[type-arg]
    from clearhead.recipe import Kinded, Spec

    found = [spec] if isinstance(spec, Kinded) else []
    for field in type(spec).model_fields if isinstance(spec, Spec) else ():
        found += _parts(getattr(spec, field))
    return found
