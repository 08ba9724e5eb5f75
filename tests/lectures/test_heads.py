"""What heads attend to (L3.7), read from the model itself by a hook of this test."""

import torch
from torch import Tensor

from clearhead.lectures.demonstrations import toy
from clearhead.models import Seq2Seq


def mirrored(model: Seq2Seq) -> float:
    """The largest mean weight that a cross-attention head gives to the letter that has to be written next."""
    source, target = toy.rows(16, torch.Generator().manual_seed(11))
    seen: list[Tensor] = []
    weights = model.get_submodule("decoder.layers.0.cross.weights")
    handle = weights.register_forward_hook(lambda _module, _inputs, out: seen.append(out))
    with torch.no_grad():
        model(source, toy.fed(target))
    handle.remove()
    places = range(toy.LENGTH)
    shares = torch.stack([seen[0][:, :, place, toy.LENGTH - 1 - place] for place in places])
    return float(shares.mean((0, 1)).max())


def test_L3_7_a_head_reads_backwards_after_training_alone() -> None:
    """L3.7: nothing tells a head to; before training no head does."""
    before, after = mirrored(toy.untrained(1)), mirrored(toy.trained(1))
    assert before < 0.3
    assert after > 0.5
