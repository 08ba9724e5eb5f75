"""Muon in float32: each momentum matrix is replaced by the nearest orthogonal one (Jordan et al. 2024).

torch.optim.Muon computes in bfloat16, one matrix at a time, which is slow on a CPU; here equal shapes are stacked.

Shapes: k matrices, m rows, n columns, m ≤ n.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn, optim

from clearhead.training.shards import own_part, own_rows, whole

_A, _B, _C = 3.4445, -4.7750, 2.0315
"""Coefficients of the quintic x → ax + bx³ + cx⁵, which drives singular values towards 1."""


def orthogonalise(matrices: Float[Tensor, "k m n"], steps: int = 5) -> Float[Tensor, "k m n"]:
    """Approximate UVᵀ of each matrix USVᵀ by Newton–Schulz iterations: all singular values come close to 1."""
    tall = matrices.shape[1] > matrices.shape[2]
    x: Tensor
    x = matrices.mT if tall else matrices
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(steps):
        gram = x @ x.mT  # (k, m, m)
        x = _A * x + torch.baddbmm(gram, gram, gram, beta=_B, alpha=_C) @ x
    return x.mT if tall else x


class Muon(optim.Optimizer):
    """W ← (1 − lr·λ)·W − lr·√max(1, rows/columns)·orthogonalise(momentum).

    Args:
        params: matrices only; give everything else to another optimizer.
        lr: the learning rate.
        momentum: decay of the momentum, with Nesterov's correction. Default 0.95.
        weight_decay: λ, decoupled as in AdamW. Default 0.
    """

    def __init__(
        self, params: Iterable[nn.Parameter], *, lr: float, momentum: float = 0.95, weight_decay: float = 0.0
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update every matrix that has a gradient."""
        del closure
        for group in self.param_groups:
            moved = [parameter for parameter in group["params"] if parameter.grad is not None]
            shapes: dict[tuple[int, ...], list[Any]] = {}
            for parameter in moved:
                shapes.setdefault(tuple(parameter.shape), []).append(parameter)
            for shape, parameters in shapes.items():
                # of whole matrices: where each process holds some rows, they are brought together
                wholes = [whole(self._momentum(parameter, group)) for parameter in parameters]
                updates = orthogonalise(torch.stack(wholes))
                length = group["lr"] * max(1.0, shape[0] / shape[1]) ** 0.5
                for parameter, update in zip(parameters, updates, strict=True):
                    rows = own_part(parameter).mul_(1 - group["lr"] * group["weight_decay"])
                    rows.sub_(own_rows(update, parameter), alpha=length)

    def _momentum(self, parameter: nn.Parameter, group: dict[str, Any]) -> Tensor:
        """Nesterov momentum: the new momentum, mixed once more with the gradient."""
        gradient = parameter.grad
        assert gradient is not None
        state = self.state[parameter]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(parameter)
        momentum: Tensor = state["momentum"].lerp_(gradient, 1 - group["momentum"])
        return gradient.lerp(momentum, group["momentum"])
