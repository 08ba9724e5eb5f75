"""Passes that begin in the middle of a stack: what a head changes begins at its layer, and all before it is known.

Shapes: b lines, n tokens, d features.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from clearhead.blocks import Stack


class Known(nn.Module):
    """Stands for layers whose result is known, and returns it.

    Args:
        result: the vectors after these layers.
    """

    def __init__(self, result: Float[Tensor, "b n d"]) -> None:
        super().__init__()
        self.result = result

    def forward(self, *_inputs: Any, **_context: Any) -> Float[Tensor, "b n d"]:
        """Return the result."""
        return self.result


@contextmanager
def layer_inputs(stack: nn.Module | None) -> Iterator[list[Float[Tensor, "b n d"]]]:
    """What every layer of a stack reads in one pass inside the ``with`` block; nothing without a Transformer stack."""
    seen: list[Tensor] = []
    with ExitStack() as hooks:
        for layer in stack.layers if isinstance(stack, Stack) else ():
            hook = layer.register_forward_pre_hook(lambda _layer, inputs: seen.append(inputs[0]))
            hooks.callback(hook.remove)
        yield seen


@contextmanager
def starting_at(stack: nn.Module | None, layer: int, inputs: list[Float[Tensor, "b n d"]]) -> Iterator[None]:
    """Inside the ``with`` block a stack begins with this layer, counting from 1, on what it read before.

    Args:
        stack: the stack.
        layer: the first layer that is computed.
        inputs: what ``layer_inputs`` saw; if it is empty, all layers are computed.
    """
    if not isinstance(stack, Stack) or not inputs or layer == 1:
        yield
        return
    layers = stack.layers
    stack.layers = nn.ModuleList([Known(inputs[layer - 1]), *layers[layer - 1 :]])
    try:
        yield
    finally:
        stack.layers = layers
