"""Decoding: every matrix product of a step, and of a whole greedy decode, counted as it runs."""

import pytest
import torch

from clearhead.costing import cost
from clearhead.costing.tracing import counted_macs
from tests.costing.mechanisms import inputs, make, recipe_of, worth, wrong_variants

OPTIONS = [
    "plain",
    "free sizes",
    "multiplicative",
    "position t5",
    "position rope",
    "Shaw keys",
    "hard",
    "feedforward gated",
]


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("family", ["seq2seq", "lm"])
def test_steps_and_whole_decodes_cost_what_the_formula_says(family: str, option: str) -> None:
    """Reading, each step t, and all together; a formula with a term dropped or changed is rejected."""
    recipe = recipe_of(family, option, "model.layers=2")
    model, formula = make(recipe).eval(), cost(recipe)
    batch, source, written = 3, 7, 5
    token = torch.full((batch, 1), 5)
    first = source + 1 if family == "lm" else 1
    with torch.no_grad():
        if family == "lm":
            state = model.start()
            read = counted_macs(lambda: model.step(*inputs("lm", batch, source), state))
            assert formula.read.macs.at(B=batch, n=source) == read
            steps = [counted_macs(lambda: model.step(token, state)) for _ in range(written - 1)]
            total = read + sum(steps)
        else:
            state = model.start(*inputs("lm", batch, source))
            read = counted_macs(lambda: model.start(*inputs("lm", batch, source)))
            # the first step also projects the memory, once
            steps = [counted_macs(lambda: model.step(token, state)) for _ in range(written)]
            total = read + sum(steps)
            steps[0] -= formula.read.macs.at(B=batch, n=source) - read
    at = [{"B": batch, "n": source, "t": first + index} for index in range(len(steps))]
    assert [formula.step.macs.at(**place) for place in at] == steps
    assert formula.decode_macs.at(B=batch, n=source, m=written) == total
    for wrong in wrong_variants(formula.step.macs.numbers):
        assert [worth(wrong, place) for place in at] != steps


def test_L2_2_decoding_takes_steps_that_wait_for_each_other_and_training_does_not() -> None:
    """L2.2: unparallelisable operations do not grow with the length, which holds for training and not for decoding."""
    base = cost("transformer-base")
    training, decoding = (
        [formula.at(n=100, m=m) for m in (128, 256, 512)] for formula in (base.span, base.decode_span)
    )
    # one more level in three trees of each decoder layer; the first waits for the encoder anyway
    assert training[1] - training[0] == training[2] - training[1] == 3 * 5
    assert [round(later / sooner, 1) for sooner, later in zip(decoding, decoding[1:], strict=False)] == [2.0, 2.0]
    assert base.sequential.at() == 6 + 6 + 6
    # a cache lowers work, not span: each step still waits for the one before
    assert base.decode_span.at(n=100, m=100) > 100 * base["decoder"]["layers"]["feedforward"].span.at()
