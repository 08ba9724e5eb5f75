"""Work and span: the closed form minus what torch does is 0, for every registered mechanism.

`pytest -s tests/costing/test_work.py` prints a line for each.
"""

from functools import cache

import pytest
import torch
from sympy import expand

from clearhead.costing import cost
from clearhead.costing.tracing import trace, watch
from clearhead.recipe import kinds, slots
from tests.costing.mechanisms import (
    CASES,
    Case,
    each,
    kinds_in,
    make,
    model_of,
    modules_of,
    priced,
    rejects,
    together,
    worth,
    wrong_variants,
)

QUANTITIES = ("macs", "operations", "span", "serial_span")
OPEN = [case for case in CASES if case.exports]
TRACED = together(OPEN)
"""Every mechanism, many in each graph, as tracing takes a second or more; `make prove` traces each alone too."""
ALONE = [pytest.param(case, marks=pytest.mark.prove) for case in OPEN if case not in TRACED]


@pytest.mark.parametrize("case", [*TRACED, *ALONE], ids=lambda case: case.name)
def test_formula_minus_graph_is_zero(case: Case) -> None:
    """The graph that torch.export traces with open lengths, summed in symbols: the model, and each of its modules."""
    recipe = case.recipe()
    model, formula = make(recipe), cost(recipe)
    graph = trace(model.eval(), case.inputs({"B": 3, "n": 7, "m": 5}), case.letters, longest=199)
    for name in QUANTITIES:
        mine, traced = getattr(formula, name).numbers, graph.total(name)
        difference = expand(mine - traced)
        print(f"{case.name:<60} {name:<12} formula − graph = {difference}")
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


@each(CASES)
def test_formula_equals_what_runs_at_more_sizes_than_it_has_terms(case: Case) -> None:
    """Two layers, counted operator by operator: also where nothing can be traced, step by step and block by block."""
    model, (_, formula) = model_of(case).eval(), priced(case)
    terms = max(len(expand(getattr(formula, name).numbers).as_ordered_terms()) for name in QUANTITIES)
    places = case.places(3 if case.reads == "image" else terms + 1)
    seen = []
    for place in places:
        inputs = case.inputs(place)
        with torch.no_grad():
            seen.append(watch(lambda inputs=inputs: model(*inputs), model, inputs))  # type: ignore[misc]
    for name in QUANTITIES:
        mine, measured = getattr(formula, name).numbers, [getattr(one, name) for one in seen]
        differences = {int(worth(mine, place)) - one for place, one in zip(places, measured, strict=True)}
        print(f"{case.name:<60} {name:<12} formula − run = {differences} at {len(places)} sizes")
        assert differences == {0}
        assert rejects(mine, places, measured)


@pytest.mark.parametrize(
    ("slot", "name"), [(slot, name) for slot in slots() for name in kinds(slot)], ids=lambda part: str(part)
)
def test_every_registered_mechanism_has_a_formula_and_a_proof(slot: str, name: str) -> None:
    """A kind that is registered without a formula fails here, and so does one that no case above proves."""
    assert kinds(slot)[name].load_cost() is not None, f"register({slot} {name!r}) lacks cost=…"
    assert any((slot, name) in proved(case) for case in CASES)


@cache
def proved(case: Case) -> set[tuple[str, str]]:
    return kinds_in(case.recipe().model)


@pytest.mark.parametrize(("cases", "most"), [(OPEN, 1 / 3), (CASES, 2 / 5)], ids=["traced", "run"])
def test_few_models_hold_every_mechanism(cases: list[Case], most: float) -> None:
    """What is proved together has every setting that is proved alone, with the same value."""
    few = together(cases)
    assert len(few) < len(cases) * most
    for alone in cases:
        family = alone.name.partition(":")[0]
        assert any(alone.settings.items() <= case.settings.items() for case in few if case.name.startswith(family))
