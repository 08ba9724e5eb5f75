"""How much a vector depends on a far token: recurrent nets against attention (L1.2)."""

from typing import Any

import pytest
import torch

from clearhead.models import build, influence
from clearhead.recipe import read_recipe

FAR, NEAR = 40, 1


def stack(*overrides: str) -> Any:
    sizes = ["model.family=encoder", "model.width=32", "model.layers=1", "model.vocabulary.source=40"]
    model: Any = build(read_recipe(None, *sizes, *overrides), seed=1)
    return model.eval().encoder


def test_influence_is_the_norm_of_the_derivative() -> None:
    """Against finite differences of one feature after the other, in float64."""
    encoder = stack("model.encoder.kind=recurrent", "model.width=4").double()
    ids = torch.tensor([[5, 6, 7]])
    mine = influence(encoder, ids, place=1)
    for token in range(3):
        squares = 0.0
        for feature in range(4):
            ends = []
            for nudge in (1e-6, -1e-6):
                added = torch.zeros(1, 3, 4, dtype=torch.float64)
                added[0, token, feature] = nudge
                hook = encoder.embedding.register_forward_hook(lambda _m, _i, out, more=added: out + more)
                with torch.no_grad():
                    ends.append(encoder(ids)[0, 1])
                hook.remove()
            squares += float(((ends[0] - ends[1]) / 2e-6).square().sum())
        assert float(mine[token]) == pytest.approx(squares**0.5, rel=1e-5)


@pytest.mark.parametrize("cell", ["elman", "gru", "lstm"])
def test_L1_2_a_recurrent_net_hardly_encodes_far_information(cell: str) -> None:
    """L1.2: ‖∂h_T/∂x_t‖ fades with the distance in a recurrent net, and not in attention.

    The wrong variant: a net that is kept from forgetting (its gate is held open) does not pass for one that forgets.
    """

    def kept(encoder: Any) -> float:
        norms = influence(encoder, torch.randint(4, 40, (1, FAR + 1)))
        return float(norms[-1 - FAR] / norms[-1 - NEAR])

    recurrent = ["model.encoder.kind=recurrent", f"model.encoder.cell={cell}", "model.encoder.bidirectional=false"]
    net = stack(*recurrent)
    assert kept(net) < 0.01
    assert kept(stack()) > 0.1
    if cell != "elman":
        with torch.no_grad():
            size = net.layers[0].rightward.size
            net.layers[0].rightward.input.bias[size : 2 * size] = 6.0  # z of a GRU, f of an LSTM: all but 1
        assert kept(net) > 0.1
