"""The loss of maximum likelihood (L0.1): −Σ log p(y_l | y_<l; x), with label smoothing.

Shapes: r rows (target tokens that count), d features, V tokens of the vocabulary.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.blocks import Output

CHUNKED_FROM = 2000
"""From this vocabulary on, logits are made and used chunk by chunk."""
ROWS = 128
"""Rows of a chunk: its logits stay in the cache of a CPU."""


def token_loss(
    states: Float[Tensor, "r d"], output: Output, labels: Int[Tensor, "r"], smoothing: float
) -> Float[Tensor, ""]:
    """The summed loss of these rows; divide by the tokens of a whole step, not of a batch.

    (1 − ε)·(−log p(y)) + ε·mean_v(−log p(v)), as torch's cross_entropy has it.
    """
    if output.scale != 1.0:
        states = states * output.scale
    if len(output.weight) < CHUNKED_FROM:
        logits = F.linear(states, output.weight, output.bias)
        return F.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing)
    bias = output.bias if output.bias is not None else states.new_zeros(len(output.weight))
    loss: Tensor = _ChunkedLoss.apply(states, output.weight, bias, labels, smoothing)  # type: ignore[no-untyped-call]
    return loss


class _ChunkedLoss(torch.autograd.Function):
    """Logits, loss and gradients of a few rows at a time: the r × V logits are never whole."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        states, weight, bias, labels, smoothing = inputs
        loss: Tensor = states.new_zeros(())
        d_states, d_weight, d_bias = torch.empty_like(states), torch.zeros_like(weight), torch.zeros_like(bias)
        size = len(weight)
        for start in range(0, len(states), ROWS):
            rows = slice(start, start + ROWS)
            x, y = states[rows], labels[rows]
            logits = torch.addmm(bias, x, weight.T)  # (rows, V)
            normaliser = logits.logsumexp(-1)
            chosen = logits.gather(1, y[:, None])[:, 0]
            mean = logits.mean(-1)
            loss += (normaliser - (1 - smoothing) * chosen - smoothing * mean).sum()
            # ∂loss/∂logits = softmax − (1 − ε)·onehot − ε/V, written over the logits
            gradient = logits.sub_(normaliser[:, None]).exp_().sub_(smoothing / size)
            gradient[torch.arange(len(y)), y] -= 1 - smoothing
            torch.mm(gradient, weight, out=d_states[rows])
            d_weight.addmm_(gradient.T, x)
            d_bias += gradient.sum(0)
        ctx.save_for_backward(d_states, d_weight, d_bias)
        return loss

    @staticmethod
    def backward(ctx: Any, *outputs: Any) -> tuple[Tensor | None, ...]:
        (scale,) = outputs
        d_states, d_weight, d_bias = ctx.saved_tensors
        return d_states * scale, d_weight * scale, d_bias * scale, None, None
