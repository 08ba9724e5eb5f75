"""Adapters of low rank beside linear maps (LoRA, Hu et al. 2021): in place while training, merged into W afterwards.

Shapes: b batch, i features in, o features out, r = rank.
"""

import copy
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.blocks import Dropout
from clearhead.models import Model


class AdaptedLinear(nn.Linear):
    """xWᵀ + b + (alpha / rank)·drop(x)AᵀBᵀ, with A (r, i) drawn at random and B (o, r) = 0 at first.

    Args:
        linear: the map to adapt, whose parameters are used as they are.
        rank: rows of A and columns of B, r.
        alpha: what the adapter's part is multiplied by, times the rank.
        dropout: probability of dropping a feature before A during training. Default: 0.
    """

    def __init__(self, linear: nn.Linear, *, rank: int, alpha: float, dropout: float = 0.0) -> None:
        _become(self, linear.weight, linear.bias)
        device = linear.weight.device
        self.lora_A = nn.Linear(self.in_features, rank, bias=False, device=device)
        self.lora_B = nn.Linear(rank, self.out_features, bias=False, device=device)
        nn.init.zeros_(self.lora_B.weight)
        self.scale = alpha / rank
        self.drop = Dropout(dropout)

    def forward(self, x: Float[Tensor, "*b i"]) -> Float[Tensor, "*b o"]:
        """Map vectors, with the adapter beside W."""
        change: Tensor = self.lora_B(self.lora_A(self.drop(x)))
        return F.linear(x, self.weight, self.bias) + self.scale * change

    def merged(self) -> nn.Linear:
        """The one linear map that computes the same: W + (alpha / rank)·BA."""
        with torch.no_grad():
            weight = self.weight + self.scale * (self.lora_B.weight @ self.lora_A.weight)
        plain = nn.Linear.__new__(nn.Linear)
        _become(plain, nn.Parameter(weight, requires_grad=False), self.bias)
        return plain.train(self.training)


def _become(linear: nn.Linear, weight: Tensor, bias: Tensor | None) -> None:
    """Make a linear map of these parameters; torch's constructor would draw others first, and disturb training."""
    nn.Module.__init__(linear)
    linear.out_features, linear.in_features = weight.shape
    assert isinstance(weight, nn.Parameter)
    assert bias is None or isinstance(bias, nn.Parameter)
    linear.weight = weight
    linear.register_parameter("bias", bias)


def merged(model: Model) -> Model:
    """The model that computes the same without adapters; weights that no adapter changes are shared, not copied.

    A model without adapters is returned as it is.
    """
    if not any(isinstance(part, AdaptedLinear) for part in model.modules()):
        return model
    shared: dict[int, Any] = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    plain = copy.deepcopy(model, shared)
    for part in list(plain.modules()):
        for name, child in part._modules.items():
            if isinstance(child, AdaptedLinear):
                setattr(part, name, child.merged())
    return plain
