"""The backward pass, against torch's own counter, and what that counter misses on a CPU."""

import torch
from torch.utils.flop_counter import FlopCounterMode

from clearhead.costing import cost
from clearhead.costing.tracing import counted_macs, written_out
from tests.costing.mechanisms import CASES, Case, each, make, model_of, priced, rejects


@each(CASES)
def test_forward_and_backward_agree_with_torchs_counter(case: Case) -> None:
    """FLOPs are twice the multiply-accumulates; on explicit paths, torch sees all of them."""
    model, (_, formula) = model_of(case), priced(case)
    forward, whole, places = [], [], case.places()
    for place in places:
        inputs = case.inputs(place)
        with written_out(), FlopCounterMode(display=False) as counter:
            result = model(*inputs)
            forward.append(counter.get_total_flops())
            result.sum().backward()
        whole.append(counter.get_total_flops())
    assert [formula.flops.at(**place) for place in places] == forward
    assert [2 * formula.training.at(**place) for place in places] == whole
    assert rejects(2 * formula.training.numbers, places, whole)


def test_torchs_counter_still_misses_fused_attention_on_a_cpu() -> None:
    """A canary: once torch counts its fused kernel on a CPU, this fails, and the docs can say so."""
    (case,) = (case for case in CASES if case.name == "encoder: plain")
    recipe, place = case.recipe(), {"B": 3, "n": 7}
    model, formula, ids = make(recipe, "fused"), cost(recipe), case.inputs({"B": 3, "n": 7, "m": 1})
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(*ids)
    attention = formula["encoder"]["layers"]["attention"].flops.at(**place)
    projections = 2 * 4 * 3 * 7 * 16 * 16
    assert attention > projections
    assert counter.get_total_flops() == formula.flops.at(**place) - (attention - projections)
    with torch.no_grad():  # ours does not
        assert counted_macs(lambda: model(*ids)) == formula.macs.at(**place)
