"""The maximum-likelihood loss (L0.1): −Σ log p(y_l | y_<l; x), with label smoothing.

Softmax and loss are computed in float32. Under autocast the products of logits and of gradients are, like all others,
in its precision: with a large vocabulary they are much of a step's work.

With ``agreement`` α each batch passes through the model twice, which drops out other features each time, and the two
predictions p and q of a token are drawn together (R-Drop, Liang et al. 2021): the loss is the mean of both passes'
plus α/4·(KL(p‖q) + KL(q‖p)). Both divergences are Σ_v (p_v − q_v)·(a_v − b_v), with the logits a of p and b of q.

Shapes: r rows (target tokens without padding), d features, V entries of the vocabulary; p passes, 1 or 2.
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
    states: Float[Tensor, "r d"] | Float[Tensor, "p r d"],
    output: Output,
    labels: Int[Tensor, "r"],
    smoothing: float,
    agreement: float = 0.0,
) -> Float[Tensor, ""]:
    """Sum the loss over these rows; the caller divides by the tokens of the whole step, not of one batch.

    (1 − ε)·(−log p(y)) + ε·mean_v(−log p(v)), with ε = ``smoothing``, as in ``torch.nn.functional.cross_entropy``; of
    two passes the mean, and ``agreement`` times a quarter of both divergences.
    """
    states = output.before(states if states.dim() == 3 else states[None])
    if len(output.weight) < CHUNKED_FROM or output.cap is not None:
        logits = output.after(states).to(output.weight.dtype)  # autocast may have computed them in bfloat16
        return label_loss(logits, labels, smoothing, agreement)
    device, exact = states.device.type, output.weight.dtype
    factors = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else exact
    with torch.autocast(device, enabled=False):  # it does not know products that are written into a buffer
        summed: Tensor = _ChunkedLoss.apply(  # type: ignore[no-untyped-call]
            states.to(exact), output.weight, output.bias, labels, smoothing, agreement, factors
        )
    return summed


def label_loss(
    logits: Float[Tensor, "p r V"], labels: Int[Tensor, "r"], smoothing: float, agreement: float = 0.0
) -> Float[Tensor, ""]:
    """Sum the loss over these rows, or lines, whose logits are there as a whole."""
    passes = len(logits)
    loss = F.cross_entropy(logits.flatten(0, 1), labels.repeat(passes), reduction="sum", label_smoothing=smoothing)
    if passes == 2:
        p, q = logits.softmax(-1)
        loss = loss / 2 + agreement / 4 * ((p - q) * (logits[0] - logits[1])).sum()
    return loss


def passes_of(agreement: float) -> int:
    """How often a batch passes through the model."""
    return 2 if agreement else 1


def repeated(side: Tensor, agreement: float) -> Tensor:
    """The lines of a batch as often as they pass through the model, one pass after the other."""
    return torch.cat([side, side]) if agreement else side


def batch_token_loss(
    states: Float[Tensor, "lines m d"], output: Output, batch: TokenBatch, smoothing: float, agreement: float = 0.0
) -> Float[Tensor, ""]:
    """Sum the loss over the tokens of a batch that count, whose lines are ``repeated``."""
    passes = states.reshape(passes_of(agreement), -1, states.shape[2])
    rows = passes[:, batch.counted]  # (p, r, d)
    return token_loss(rows, output, batch.labels.flatten()[batch.counted], smoothing, agreement)


class _ChunkedLoss(torch.autograd.Function):
    """Computes logits, loss and gradients a few rows at a time, so that the r × V logits never exist as a whole.

    Factors of products are rounded to ``factors``, a dtype; what is summed over chunks is summed in that of the weight.
    """

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        states, weight, bias, labels, smoothing, agreement, factors = inputs
        passes = len(states)
        each = 1 / passes  # a pass's share of the loss
        rounded, table = states.to(factors), weight.to(factors)
        d_states = torch.empty_like(states)
        d_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None  # a frozen matrix needs none
        d_bias = None if bias is None else torch.zeros_like(bias)
        loss: Tensor = states.new_zeros(())
        size = ROWS // passes
        buffer = states.new_empty(passes * min(size, len(labels)), len(weight))
        for start in range(0, len(labels), size):
            part = slice(start, start + size)
            x, y = rounded[:, part].flatten(0, 1), labels[part].repeat(passes)
            logits = _product(x, table.T, buffer[: len(x)])  # (rows, V)
            if bias is not None:
                logits += bias
            chosen = logits.gather(1, y[:, None])
            apart = torch.sub(*logits.chunk(2)) if passes == 2 else None  # before softmax takes the logits' place
            # softmax in place; the loss needs only log Σ exp(logit)
            maximum = logits.amax(1, keepdim=True)
            total = logits.sub_(maximum).exp_().sum(1, keepdim=True)
            loss += each * (total.log() + maximum - (1 - smoothing) * chosen).sum()
            # ∂loss/∂logits = softmax − (1 − ε)·onehot − ε/V; the last term is added once, after the loop
            gradient = logits.div_(total)
            if apart is not None:
                loss += _agree(apart, gradient, agreement)
            gradient[torch.arange(len(y), device=y.device), y] -= each * (1 - smoothing)
            if d_bias is not None:
                d_bias += gradient.sum(0)
            gradient = gradient.to(factors)
            d_states[:, part] = (gradient @ table).unflatten(0, (passes, -1))
            if d_weight is not None and factors == weight.dtype:
                d_weight.addmm_(gradient.T, x)
            elif d_weight is not None:
                d_weight += gradient.T @ x
        # ε·mean_v(−logit_v) = −ε/V·(Σ_v w_v·x + b_v): linear, so neither it nor its gradient needs the logits
        share, all_weights, all_states = each * smoothing / len(weight), weight.sum(0), states.sum((0, 1))
        loss -= share * (all_weights @ all_states)
        d_states -= share * all_weights
        if d_weight is not None:
            d_weight -= share * all_states
        if bias is not None and d_bias is not None:
            loss -= share * passes * len(labels) * bias.sum()
            d_bias -= share * passes * len(labels)
        ctx.save_for_backward(d_states, d_weight, d_bias)
        return loss

    @staticmethod
    def backward(ctx: Any, *outputs: Any) -> tuple[Tensor | None, ...]:
        (scale,) = outputs
        d_states, d_weight, d_bias = ctx.saved_tensors
        of_weight, of_bias = (None if part is None else part * scale for part in (d_weight, d_bias))
        return d_states * scale, of_weight, of_bias, None, None, None, None


def _agree(apart: Float[Tensor, "k V"], probabilities: Float[Tensor, "2*k V"], agreement: float) -> Float[Tensor, ""]:
    """α/4 of both divergences, summed, of probabilities whose logits are ``apart``: Δ = a − b.

    The probabilities become the gradient of their half of Σ −log p(y) and of the divergences:
    p/2 + α/4·(p·(Δ − E_p Δ) + p − q), and the same for q with −Δ.
    """
    p, q = probabilities.chunk(2)
    weight = agreement / 4
    mean_p, mean_q = ((half * apart).sum(1, keepdim=True) for half in (p, q))
    of_p = (apart - mean_p).mul_(weight).add_(0.5 + weight).mul_(p).sub_(q, alpha=weight)
    of_q = (mean_q - apart).mul_(weight).add_(0.5 + weight).mul_(q).sub_(p, alpha=weight)
    torch.cat([of_p, of_q], out=probabilities)
    found: Tensor = weight * (mean_p - mean_q).sum()  # Σ (p − q)·Δ
    return found


def _product(a: Float[Tensor, "r k"], b: Float[Tensor, "k c"], into: Float[Tensor, "r c"]) -> Float[Tensor, "r c"]:
    """ab, written into a tensor that may be of a higher precision."""
    return torch.mm(a, b, out=into) if a.dtype == into.dtype else into.copy_(a @ b)
