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
ROWS = 256
"""Rows of a chunk: few enough that its logits stay in a cache, enough to keep the matrix products busy."""


def token_loss(
    states: Float[Tensor, "r d"], output: Output, labels: Int[Tensor, "r"], smoothing: float
) -> Float[Tensor, ""]:
    """The summed loss of these rows; divide by the tokens of a whole step, not of a batch.

    (1 − ε)·(−log p(y)) + ε·mean_v(−log p(v)), as torch's cross_entropy has it.
    """
    states = output.before(states)
    if len(output.weight) < CHUNKED_FROM:
        logits = F.linear(states, output.weight, output.bias)
        return F.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing)
    summed: Tensor = _ChunkedLoss.apply(  # type: ignore[no-untyped-call]
        states, output.weight, output.bias, labels, smoothing
    )
    return summed


class _ChunkedLoss(torch.autograd.Function):
    """Logits, loss and gradients of a few rows at a time: the r × V logits are never whole."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        states, weight, bias, labels, smoothing = inputs
        d_states, d_weight = torch.empty_like(states), torch.zeros_like(weight)
        d_bias = None if bias is None else torch.zeros_like(bias)
        loss: Tensor = states.new_zeros(())
        buffer = states.new_empty(min(ROWS, len(states)), len(weight))
        for start in range(0, len(states), ROWS):
            rows = slice(start, start + ROWS)
            x, y = states[rows], labels[rows]
            logits = torch.mm(x, weight.T, out=buffer[: len(x)])  # (rows, V)
            if bias is not None:
                logits += bias
            chosen = logits.gather(1, y[:, None])
            # softmax in place; log Σ exp(logit) is what remains of it for the loss
            maximum = logits.amax(1, keepdim=True)
            total = logits.sub_(maximum).exp_().sum(1, keepdim=True)
            loss += (total.log() + maximum - (1 - smoothing) * chosen).sum()
            # ∂loss/∂logits = softmax − (1 − ε)·onehot − ε/V, whose last term waits until all rows are done
            gradient = logits.div_(total)
            gradient[torch.arange(len(y)), y] -= 1 - smoothing
            torch.mm(gradient, weight, out=d_states[rows])
            d_weight.addmm_(gradient.T, x)
            if d_bias is not None:
                d_bias += gradient.sum(0)
        # ε·mean_v(−logit_v) = −ε/V·(Σ_v w_v·x + b_v): linear, so neither it nor its gradient needs the logits
        share, all_weights, all_states = smoothing / len(weight), weight.sum(0), states.sum(0)
        loss -= share * (all_weights @ all_states)
        d_states -= share * all_weights
        d_weight -= share * all_states
        if bias is not None and d_bias is not None:
            loss -= share * len(states) * bias.sum()
            d_bias -= share * len(states)
        ctx.save_for_backward(d_states, d_weight, d_bias)
        return loss

    @staticmethod
    def backward(ctx: Any, *outputs: Any) -> tuple[Tensor | None, ...]:
        (scale,) = outputs
        d_states, d_weight, d_bias = ctx.saved_tensors
        return d_states * scale, d_weight * scale, None if d_bias is None else d_bias * scale, None, None
