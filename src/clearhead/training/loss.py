"""The maximum-likelihood loss (L0.1): −Σ log p(y_l | y_<l; x), with label smoothing.

Softmax and loss are computed in float32. Under autocast the products of logits and of gradients are, like all others,
in its precision: with a large vocabulary they are much of a step's work.

Shapes: r rows (target tokens without padding), d features, V entries of the vocabulary.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.blocks import Output
from clearhead.data import TokenBatch

CHUNKED_FROM = 2000
"""Vocabulary size from which logits are computed chunk by chunk."""
ROWS = 256
"""Rows per chunk: few enough that the logits stay in cache, many enough for efficient matrix products."""


def token_loss(
    states: Float[Tensor, "r d"], output: Output, labels: Int[Tensor, "r"], smoothing: float
) -> Float[Tensor, ""]:
    """Sum the loss over these rows; the caller divides by the tokens of the whole step, not of one batch.

    (1 − ε)·(−log p(y)) + ε·mean_v(−log p(v)), with ε = ``smoothing``, as in ``torch.nn.functional.cross_entropy``.
    """
    states = output.before(states)
    if len(output.weight) < CHUNKED_FROM or output.cap is not None:
        logits = output.after(states).to(output.weight.dtype)  # autocast may have computed them in bfloat16
        return F.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing)
    device, exact = states.device.type, output.weight.dtype
    factors = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else exact
    with torch.autocast(device, enabled=False):  # it does not know products that are written into a buffer
        summed: Tensor = _ChunkedLoss.apply(  # type: ignore[no-untyped-call]
            states.to(exact), output.weight, output.bias, labels, smoothing, factors
        )
    return summed


def batch_token_loss(
    states: Float[Tensor, "b m d"], output: Output, batch: TokenBatch, smoothing: float
) -> Float[Tensor, ""]:
    """Sum the loss over the tokens of a batch that count."""
    rows = states.flatten(0, 1)[batch.counted]  # (r, d)
    return token_loss(rows, output, batch.labels.flatten()[batch.counted], smoothing)


class _ChunkedLoss(torch.autograd.Function):
    """Computes logits, loss and gradients a few rows at a time, so that the r × V logits never exist as a whole.

    Factors of products are rounded to ``factors``, a dtype; what is summed over chunks is summed in that of the weight.
    """

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        states, weight, bias, labels, smoothing, factors = inputs
        rounded, table = states.to(factors), weight.to(factors)
        d_states = torch.empty_like(states)
        d_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None  # a frozen matrix needs none
        d_bias = None if bias is None else torch.zeros_like(bias)
        loss: Tensor = states.new_zeros(())
        buffer = states.new_empty(min(ROWS, len(states)), len(weight))
        for start in range(0, len(states), ROWS):
            rows = slice(start, start + ROWS)
            x, y = rounded[rows], labels[rows]
            logits = _product(x, table.T, buffer[: len(x)])  # (rows, V)
            if bias is not None:
                logits += bias
            chosen = logits.gather(1, y[:, None])
            # softmax in place; the loss needs only log Σ exp(logit)
            maximum = logits.amax(1, keepdim=True)
            total = logits.sub_(maximum).exp_().sum(1, keepdim=True)
            loss += (total.log() + maximum - (1 - smoothing) * chosen).sum()
            # ∂loss/∂logits = softmax − (1 − ε)·onehot − ε/V; the last term is added once, after the loop
            gradient = logits.div_(total)
            gradient[torch.arange(len(y), device=y.device), y] -= 1 - smoothing
            if d_bias is not None:
                d_bias += gradient.sum(0)
            gradient = gradient.to(factors)
            _product(gradient, table, d_states[rows])
            if d_weight is not None and factors == weight.dtype:
                d_weight.addmm_(gradient.T, x)
            elif d_weight is not None:
                d_weight += gradient.T @ x
        # ε·mean_v(−logit_v) = −ε/V·(Σ_v w_v·x + b_v): linear, so neither it nor its gradient needs the logits
        share, all_weights, all_states = smoothing / len(weight), weight.sum(0), states.sum(0)
        loss -= share * (all_weights @ all_states)
        d_states -= share * all_weights
        if d_weight is not None:
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
        of_weight, of_bias = (None if part is None else part * scale for part in (d_weight, d_bias))
        return d_states * scale, of_weight, of_bias, None, None, None


def _product(a: Float[Tensor, "r k"], b: Float[Tensor, "k c"], into: Float[Tensor, "r c"]) -> Float[Tensor, "r c"]:
    """ab, written into a tensor that may be of a higher precision."""
    return torch.mm(a, b, out=into) if a.dtype == into.dtype else into.copy_(a @ b)
