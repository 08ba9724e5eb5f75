"""What happens when a module runs: products counted as they are called, bytes that autograd keeps, bytes of a cache."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy
import torch
from numpy.lib.stride_tricks import as_strided
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from clearhead.costing.tracing.operators import MAKING, Call, OperatorCost, operator_cost


class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts what runs inside, operator by operator, and when each result could be ready.

    For modules that ``torch.export`` cannot trace. What does not depend on ``live`` tensors (inputs and parameters) is
    free, as in a traced graph. Fused attention on a CPU is counted, of which torch's own FlopCounterMode sees nothing.
    """

    def __init__(self, live: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.macs: int = 0
        self.operations: int = 0
        self._times: dict[int, np.ndarray] = {}
        """For each piece of memory, when each of its numbers is ready; −1 for what is not live."""
        self._held: list[Tensor] = []  # memory that is given back could be taken for something else
        for tensor in live:
            self._of(tensor)[...] = 0

    def _of(self, tensor: Tensor) -> np.ndarray:
        """The times of a tensor's numbers, (2, *shape): trees, and serial dot products; a view, as the tensor is."""
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._times:
            self._times[storage.data_ptr()] = np.full((2, storage.nbytes() // tensor.element_size()), -1)
            self._held.append(tensor)
        flat = self._times[storage.data_ptr()]
        strides = (flat.strides[0], *(8 * stride for stride in tensor.stride()))
        return as_strided(flat[:, tensor.storage_offset() :], (2, *tensor.shape), strides)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator, and note its cost and when its result is ready."""
        result = func(*args, **(kwargs or {}))
        name = str(func.overloadpacket).rpartition(".")[2]
        outputs = [part for part in (result if isinstance(result, tuple | list) else [result]) if _is_tensor(part)]
        given = [part for part in tree_leaves((args, kwargs)) if _is_tensor(part) and part.numel()]
        live = [times for times in map(self._of, given) if times.max() >= 0]
        views = {_memory(part) for part in given} if not name.endswith("_") else set()
        changed = [part for part in outputs if _memory(part) not in views and part.numel()]
        if not live or not changed or name in MAKING:
            for part in changed:
                self._of(part)[...] = -1
            return result
        cost = OperatorCost()
        if changed[0].is_floating_point() or name == "argmax":
            inputs = [_sizes(value) if _is_tensor(value) else value for value in args]
            cost = operator_cost(Call(name, inputs, _sizes(outputs[0]), dict(kwargs or {})))
        self.macs += int(cost.macs)
        self.operations += int(cost.operations)
        for way, span in enumerate((cost.span, cost.serial_span)):
            ready = max(int(times[way].max()) for times in live) + int(span)
            for part in changed:
                self._of(part)[way] = ready
        return result

    def ready(self, result: Tensor) -> tuple[int, int]:
        """The spans of a result: with sums as trees, and with dot products one term after the other."""
        tree, serial = (int(times.max()) for times in self._of(result))
        return tree, serial


@dataclass(frozen=True)
class Watched:
    """What a call did."""

    macs: int
    operations: int
    span: int
    serial_span: int


def watch(call: Callable[[], Tensor], module: nn.Module, inputs: Iterable[Tensor]) -> Watched:
    """Run a call and count everything: its module's parameters and these inputs are what the result depends on."""
    with _written_out(), Watch((*module.parameters(), *inputs)) as seen:
        result = call()
        tree, serial = seen.ready(result)
    return Watched(seen.macs, seen.operations, tree, serial)


PRODUCTS = ("mm", "bmm", "mv", "addmm", "baddbmm", "convolution", "_scaled_dot_product_flash_attention_for_cpu")


class WorkCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts multiply-accumulates alone, of anything that runs inside, whatever else it does."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.macs: int = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator and add what it multiplies."""
        result = func(*args, **(kwargs or {}))
        name = str(func.overloadpacket).rpartition(".")[2]
        if name in PRODUCTS:
            output = result[0] if isinstance(result, tuple) else result
            inputs = [_sizes(value) if _is_tensor(value) else value for value in args]
            self.macs += int(operator_cost(Call(name, inputs, _sizes(output), {})).macs)
        return result


@contextmanager
def _written_out() -> Iterator[None]:
    """Recurrent nets operator by operator: oneDNN's kernel would show only itself."""
    before = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = False  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.backends.mkldnn.enabled = before


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def _sizes(tensor: Tensor) -> tuple[sympy.Integer, ...]:
    return tuple(sympy.Integer(size) for size in tensor.shape)


def counted_macs(call: Callable[[], Any]) -> int:
    """Multiply-accumulates of a call, as it really runs."""
    with _written_out(), WorkCounter() as counter:
        call()
    total: int = counter.macs
    return total


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
            vars(part)["path"] = path
