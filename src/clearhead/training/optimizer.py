"""Optimizers: AdamW for all parameters, or Muon for the hidden matrices and AdamW for the rest."""

from torch import nn, optim

from clearhead.blocks import Output
from clearhead.recipe import OptimizerSpec
from clearhead.training.muon import Muon


def make_optimizers(model: nn.Module, spec: OptimizerSpec) -> list[optim.Optimizer]:
    """Make the optimizers of a model; each parameter group stores its highest learning rate as ``peak``.

    Weight decay applies to the layers' matrices, not to biases, gains and embeddings.
    """
    tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding | Output)}
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    hidden = [p for p in parameters if p.dim() == 2 and id(p) not in tables]
    others = [p for p in parameters if p.dim() != 2 or id(p) in tables]
    optimizers: list[optim.Optimizer] = []
    groups = [{"params": others, "weight_decay": 0.0}]
    if spec.kind == "muon":
        optimizers += [Muon(hidden, lr=spec.muon_rate, weight_decay=spec.weight_decay)] if hidden else []
    else:
        groups.append({"params": hidden, "weight_decay": spec.weight_decay})
    beta1, beta2 = spec.betas
    if groups := [group for group in groups if group["params"]]:  # of a model whose other parts are frozen
        fused = parameters[0].device.type in ("cpu", "cuda", "mps")  # one kernel for all parameters
        optimizers.append(optim.AdamW(groups, lr=spec.rate, betas=(beta1, beta2), eps=spec.eps, fused=fused))
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["peak"] = group["lr"]
    return optimizers
