"""Decoding: every matrix product of a step, and of a whole greedy decode, counted as it runs."""

from itertools import pairwise
from typing import Any

import pytest
import torch

from clearhead.costing import cost
from clearhead.costing.tracing import counted_macs, watch
from tests.costing.mechanisms import CASES, Case, as_family, each, model_of, named, priced, rejects

OPTIONS = [
    *(
        "plain",
        "free sizes",
        "multiplicative",
        "position t5",
        "position rope",
        "Shaw keys",
        "hard",
        "feedforward gated",
    ),
    *("disentangled alone", "disentangled v2", "local, one side, wider"),
]
WRITERS = [
    *((f"{family}: {option}", f"lm: {option}", family) for option in OPTIONS for family in ("seq2seq", "lm")),
    ("seq2seq: linformer", "seq2seq: linformer", "seq2seq"),
    *((case.name, case.name, "") for case in CASES if case.name.startswith("recurrent")),
]


@pytest.mark.parametrize(("title", "name", "family"), WRITERS, ids=[title for title, *_ in WRITERS])
def test_steps_and_whole_decodes_cost_what_the_formula_says(title: str, name: str, family: str) -> None:
    """Reading, each step t, and all together; a formula with a term dropped or changed is rejected."""
    case = as_family(name, family) if family else named(name)
    model, (recipe, formula) = model_of(case).eval(), priced(case)
    alone = recipe.model.family == "lm"
    batch, source, written = 3, 7, 5
    token, ids = torch.full((batch, 1), 5), torch.full((batch, source), 5)
    with torch.no_grad():
        if alone:
            state = model.start()
            read = counted_macs(lambda: model.step(ids, state))
        else:
            state = model.start(ids)
            read = counted_macs(lambda: model.start(ids))
        steps = [counted_macs(lambda: model.step(token, state)) for _ in range(written - int(alone))]
    total = read + sum(steps)
    if not alone:  # the first step also does once what is done once: the memory's keys, the first state
        steps[0] -= formula.read.macs.at(B=batch, n=source) - read
        read = formula.read.macs.at(B=batch, n=source)
    first = source + 1 if alone else 1
    at = [{"B": batch, "n": source, "t": first + index} for index in range(len(steps))]
    assert formula.read.macs.at(B=batch, n=source) == read
    assert [formula.step.macs.at(**place) for place in at] == steps
    assert formula.decode_macs.at(B=batch, n=source, m=written) == total
    assert rejects(formula.step.macs.numbers, at, steps)


STEPPERS = [case for case in CASES if case.name.startswith(("lm", "seq2seq", "recurrent"))]


@each(STEPPERS)
def test_every_step_is_counted_operator_by_operator(case: Case) -> None:
    """Products, other operations and both spans of reading a prompt and of steps, the choice of a token included."""
    model, (recipe, formula) = model_of(case).eval(), priced(case)
    batch, source = 3, 7
    token, ids = torch.full((batch, 1), 5), torch.full((batch, source), 5)
    alone = recipe.model.family == "lm"
    quantities = ("macs", "operations", "span", "serial_span")
    with torch.no_grad():
        if alone:
            state = model.start()
            seen = watch(lambda: model.step(ids, state).argmax(-1), model, [ids])
            for name in quantities:
                assert getattr(formula.read, name).at(B=batch, n=source) == getattr(seen, name)
        else:
            state = model.start(ids)
            model.step(token, state)  # which also does once what is done once
        first = source + 1 if alone else 2
        for t in range(first, first + 3):
            seen = watch(lambda: model.step(token, state).argmax(-1), model, [token, *_tensors(state)])
            for name in quantities:
                assert getattr(formula.step, name).at(B=batch, n=source, t=t) == getattr(seen, name), (name, t)


def _tensors(thing: Any) -> list[torch.Tensor]:
    """Everything that a state holds on to."""
    if isinstance(thing, torch.Tensor):
        return [thing] if thing.is_floating_point() else []
    if isinstance(thing, dict):
        thing = list(thing.values())
    if isinstance(thing, list | tuple):
        return [tensor for part in thing for tensor in _tensors(part)]
    return _tensors(vars(thing)) if hasattr(thing, "__dict__") else []


def test_L2_2_decoding_takes_steps_that_wait_for_each_other_and_training_does_not() -> None:
    """L2.2: unparallelisable operations do not grow with the length, which holds for training and not for decoding."""
    base = cost("transformer-base")
    training, decoding = (
        [formula.at(n=100, m=m) for m in (128, 256, 512)] for formula in (base.span, base.decode_span)
    )
    # one more level in three trees of each decoder layer; the first waits for the encoder anyway
    assert training[1] - training[0] == training[2] - training[1] == 3 * 5
    assert [round(later / sooner, 1) for sooner, later in pairwise(decoding)] == [2.0, 2.0]
    assert base.sequential.at() == 6 + 6 + 6
    # a cache lowers work, not span: each step still waits for the one before
    assert base.decode_span.at(n=100, m=100) > 100 * base["decoder"]["layers"]["feedforward"].span.at()
