"""The backward pass, against torch's own counter on the meta device, and what that counter misses on a CPU."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from clearhead.costing import cost
from clearhead.costing.tracing import attention_path, counted_macs
from tests.costing.mechanisms import CASES, inputs, make, recipe_of, worth, wrong_variants

PLACES = [{"B": 3, "n": 7, "m": 5}, {"B": 2, "n": 5, "m": 9}, {"B": 5, "n": 12, "m": 8}]


@pytest.mark.parametrize(("family", "option"), CASES, ids=[f"{family}: {option}" for family, option in CASES])
def test_forward_and_backward_agree_with_torchs_counter(family: str, option: str) -> None:
    """FLOPs are twice the multiply-accumulates; on the meta device torch's counter sees all of them."""
    recipe = recipe_of(family, option)
    model, formula = make(recipe).to("meta"), cost(recipe)
    forward, whole = [], []
    for place in PLACES:
        ids = [part.to("meta") for part in inputs(family, place["B"], place["n"], place["m"])]
        with FlopCounterMode(display=False) as counter:
            result = model(*ids)
            forward.append(counter.get_total_flops())
            result.sum().backward()
        whole.append(counter.get_total_flops())
    assert [formula.flops.at(**place) for place in PLACES] == forward
    assert [2 * formula.training.at(**place) for place in PLACES] == whole
    for wrong in wrong_variants(formula.training.numbers):
        assert [2 * worth(wrong, place) for place in PLACES] != whole


def test_torchs_counter_still_misses_fused_attention_on_a_cpu() -> None:
    """A canary: once torch counts its fused kernel on a CPU, this fails, and the docs can say so."""
    recipe = recipe_of("encoder", "plain")
    model, ids, formula = make(recipe, "fused"), inputs("encoder"), cost(recipe)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(*ids)
    counted = counter.get_total_flops()
    attention = formula["encoder"]["layers"]["attention"]
    inside = {"B": 3, "n": 7}
    projections = 2 * 4 * 3 * 7 * 16 * 16
    assert attention.flops.at(**inside) > projections
    assert counted == formula.flops.at(**inside) - (attention.flops.at(**inside) - projections)
    with torch.no_grad():  # ours does not
        assert counted_macs(lambda: model(*ids)) == formula.macs.at(**inside)
    attention_path(model, "auto")
