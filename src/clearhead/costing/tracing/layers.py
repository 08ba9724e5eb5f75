"""The layers of Table 1 (L4.6) as they run: work, sequential products, and how many layers join all positions.

Attention, recurrence, convolution and restricted attention in their plainest form, so that the table can be measured.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.attention import LocalAttention, MultiHeadAttention
from clearhead.costing.tracing.run import counted_macs


class RecurrentLayer(nn.Module):
    """h_t = tanh(W x_t + U h_{t−1} + b): Elman's network, one token after the other."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.cell = nn.RNNCell(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """All states."""
        state, states = x.new_zeros(len(x), x.shape[-1]), []
        for token in x.unbind(1):
            state = self.cell(token, state)
            states.append(state)
        return torch.stack(states, dim=1)


class Convolution(nn.Module):
    """Each token sees itself and k − 1 before it, ``dilation`` apart."""

    def __init__(self, width: int, kernel: int, dilation: int = 1) -> None:
        super().__init__()
        self.reach = (kernel - 1) * dilation
        self.map = nn.Conv1d(width, width, kernel, dilation=dilation, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Convolve along the sequence."""
        result: Tensor = self.map(F.pad(x.transpose(1, 2), (self.reach, 0)))
        return result.transpose(1, 2)


@dataclass(frozen=True)
class Measured:
    """What a layer does when it runs."""

    macs: int
    chain: int
    """Sequential matrix products."""
    layers: int
    """How many such layers it takes until the last token depends on the first."""


def attention_layer(width: int) -> MultiHeadAttention:
    """One head without biases, on the explicit path."""
    attention = MultiHeadAttention(width=width, heads=1, bias=False)
    attention.path = "explicit"
    return attention


def window_layer(width: int, window: int) -> LocalAttention:
    """The same over windows on both sides, in blocks whose products can be counted."""
    attention = LocalAttention(width=width, heads=1, bias=False, window=window, sides="both")
    attention.path = "explicit"
    return attention


def measure(make: Callable[[int], nn.Module], *, length: int, width: int) -> Measured:
    """Run the layer that ``make`` makes for each depth, counted from 0."""
    x = torch.randn(1, length, width, requires_grad=True)
    layer = make(0)
    macs = counted_macs(lambda: layer(x))
    return Measured(macs, _chain(layer(x)), _layers_to_join(make, length, width))


def _chain(result: Tensor) -> int:
    """The longest chain of matrix products in the graph that autograd keeps."""
    depths: dict[object, int] = {}
    waiting = [(result.grad_fn, False)]
    while waiting:
        node, done = waiting.pop()
        if node is None or (node in depths and not done):
            continue
        before = [parent for parent, _ in node.next_functions if parent is not None]
        if not done:
            waiting += [(node, True), *((parent, False) for parent in before)]
        else:
            is_product = type(node).__name__ in (
                "MmBackward0",
                "BmmBackward0",
                "AddmmBackward0",
                "ConvolutionBackward0",
            )
            depths[node] = max((depths[parent] for parent in before), default=0) + is_product
    return depths[result.grad_fn]


def _layers_to_join(make: Callable[[int], nn.Module], length: int, width: int) -> int:
    """Stack layers until ∂(last token)/∂(first token) is not zero."""
    start = torch.randn(1, length, width, dtype=torch.float64, requires_grad=True)
    x: Tensor = start
    for depth in range(length):
        x = make(depth).double()(x)
        (gradient,) = torch.autograd.grad(x[0, -1].sum(), start, retain_graph=True)
        if gradient[0, 0].abs().max() > 0:
            return depth + 1
    raise ValueError(f"{length} layers do not join {length} positions")
