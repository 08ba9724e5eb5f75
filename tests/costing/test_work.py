"""Work and span: the closed form minus the sum over the graph that torch.export traces, with open lengths, is 0.

`pytest -s tests/costing/test_work.py` prints a line for every mechanism.
"""

import pytest
from sympy import expand

from clearhead.costing import cost
from clearhead.costing.tracing import trace
from clearhead.recipe import kinds, slots
from tests.costing.mechanisms import CASES, inputs, letters, make, modules_of, recipe_of, wrong_variants


@pytest.mark.parametrize(("family", "option"), CASES, ids=[f"{family}: {option}" for family, option in CASES])
def test_formula_minus_graph_is_zero(family: str, option: str) -> None:
    """Multiply-accumulates, other operations and both spans, of the model and of each of its modules."""
    recipe = recipe_of(family, option)
    model, formula = make(recipe), cost(recipe)
    graph = trace(model.eval(), inputs(family), letters(family), longest=200)
    for name, mine, traced in (
        ("macs", formula.macs, graph.macs()),
        ("operations", formula.operations, graph.operations()),
        ("span", formula.span, graph.span),
        ("serial span", formula.serial_span, graph.serial_span),
    ):
        difference = expand(mine.numbers - traced)
        print(f"{family + ': ' + option:<50} {name:<12} formula − graph = {difference}")
        assert difference == 0
        assert all(expand(wrong - traced) != 0 for wrong in wrong_variants(mine.numbers))
    modules = dict(model.named_modules())
    checked = 0
    for path, part in modules_of(formula):
        if path in modules:
            checked += 1
            assert expand(part.macs.numbers - graph.macs(path)) == 0, path
            assert expand(part.operations.numbers - graph.operations(path)) == 0, path
    assert checked >= 8


def test_equal_layers_are_multiplied() -> None:
    """Two layers of a decoder over a memory: the first one waits for the encoder, the second does not."""
    recipe = recipe_of("seq2seq", "plain", "model.layers=2")
    graph = trace(make(recipe).eval(), inputs("seq2seq"), letters("seq2seq"), longest=200)
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
