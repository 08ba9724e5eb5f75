"""Which parameters decay, which ones Muon moves, and the settings that reach the optimizers."""

import pytest
import torch
from torch import nn

from clearhead.blocks import Output
from clearhead.recipe import OptimizerSpec
from clearhead.training.muon import Muon
from clearhead.training.optimizer import make_optimizers


def small_model() -> nn.ModuleDict:
    """One of each: a table, an output that is not tied, a layer with a bias, a gain."""
    parts = {"table": nn.Embedding(7, 4), "output": Output(torch.randn(7, 4)), "layer": nn.Linear(4, 4)}
    return nn.ModuleDict(parts | {"norm": nn.LayerNorm(4)})


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_only_the_matrices_of_layers_decay_and_only_they_are_muons(kind: str) -> None:
    model = small_model()
    spec = OptimizerSpec(kind=kind, weight_decay=0.25, rate=0.5, muon_rate=0.125, betas=[0.8, 0.9], eps=1e-3)  # type: ignore[arg-type]
    groups = [(optimizer, group) for optimizer in make_optimizers(model, spec) for group in optimizer.param_groups]
    found = {id(parameter): entry for entry in groups for parameter in entry[1]["params"]}
    assert found.keys() == {id(parameter) for parameter in model.parameters()}
    for name, parameter in model.named_parameters():
        optimizer, group = found[id(parameter)]
        matrix = name == "layer.weight"
        assert group["weight_decay"] == (0.25 if matrix else 0.0)
        assert isinstance(optimizer, Muon) == (matrix and kind == "muon")
        assert group["peak"] == group["lr"] == (0.125 if isinstance(optimizer, Muon) else 0.5)
        if not isinstance(optimizer, Muon):
            assert (group["betas"], group["eps"]) == ((0.8, 0.9), 1e-3)
