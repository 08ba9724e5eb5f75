"""What happens when a module runs: products counted as they are called, bytes that autograd keeps, bytes of a cache."""

from collections.abc import Callable, Iterable
from typing import Any

import sympy
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from clearhead.costing.tracing.operators import FREE, Call, operator_cost


class WorkCounter(TorchDispatchMode):
    """Counts multiply-accumulates of everything that runs inside, fused attention on a CPU included.

    torch's own FlopCounterMode counts 0 for that. Only matrix products are counted: what else runs is not looked at.
    """

    PRODUCTS = ("mm", "bmm", "mv", "addmm", "baddbmm", "convolution", "_scaled_dot_product_flash_attention_for_cpu")

    def __init__(self) -> None:
        super().__init__()
        self.macs = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator and add what it multiplies."""
        result = func(*args, **(kwargs or {}))
        name = str(func.overloadpacket).rpartition(".")[2]
        if name in self.PRODUCTS and name not in FREE:
            output = result[0] if isinstance(result, tuple) else result
            inputs = [_sizes(value) if isinstance(value, Tensor) else value for value in args]
            self.macs += int(operator_cost(Call(name, inputs, _sizes(output), {})).macs)
        return result


def _sizes(tensor: Tensor) -> tuple[sympy.Integer, ...]:
    return tuple(sympy.Integer(size) for size in tensor.shape)


def counted_macs(call: Callable[[], Any]) -> int:
    """Multiply-accumulates of a call, as it really runs."""
    with WorkCounter() as counter:
        call()
    return counter.macs


def saved_bytes(call: Callable[[], Any], module: nn.Module, *, given: Iterable[Tensor] = ()) -> int:
    """Bytes that autograd keeps between the forward and the backward pass of a call, weights and buffers apart.

    Memory that several operations keep counts once. ``given`` are tensors that belong to the caller.
    """
    apart = {_memory(tensor) for tensor in (*module.parameters(), *module.buffers(), *given)}
    kept: dict[int, Tensor] = {}

    def note(tensor: Tensor) -> Tensor:
        if _memory(tensor) not in apart:
            kept.setdefault(_memory(tensor), tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        result = call()
    total = sum(tensor.untyped_storage().nbytes() for tensor in kept.values())
    del result
    return total


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def attention_path(module: nn.Module, path: str) -> None:
    """Let every attention in a module take this way: ``explicit``, ``fused`` or ``auto``."""
    for part in module.modules():
        if hasattr(part, "path"):
            part.path = path
