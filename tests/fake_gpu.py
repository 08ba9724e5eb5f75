"""A GPU made of torch's meta device: no machine that runs the tests has a real one."""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

META = torch.device("meta")
CPU = torch.device("cpu")
_aten = torch.ops.aten


class FakeGpu(TorchDispatchMode):
    """Lets ``meta`` stand for a GPU whose numbers are all 0.

    An operator that mixes its tensors with those of the CPU fails, as on a GPU, and so does float64, which Apple's GPUs
    do not have. A ``lenient`` one takes float64, and indices that are on the CPU, as CUDA does. What is
    copied to the CPU is 0, and counted: each such copy waits for the GPU. Reading a tensor as a NumPy array fails by
    itself.
    """

    def __init__(self, *, lenient: bool = False) -> None:
        super().__init__()
        self.lenient = lenient
        self.waits = 0
        """Copies to the CPU, and single numbers that were read."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        moves = func.overloadpacket in (_aten._to_copy, _aten.to)
        if moves and args[0].device == META and CPU in (kwargs.get("device"), *args[1:]):
            self.waits += 1
            return torch.zeros(args[0].shape, dtype=kwargs.get("dtype") or args[0].dtype)
        if func in (_aten._local_scalar_dense.default, _aten.item.default) and args[0].device == META:
            self.waits += 1
            return 0.0 if args[0].dtype.is_floating_point else 0
        if func is _aten.equal.default and META in (args[0].device, args[1].device):
            self.waits += 1
            return args[0].shape == args[1].shape
        if func is _aten.copy_.default and args[0].device == CPU and args[1].device == META:
            self.waits += 1
            return args[0].zero_()
        there = [part for part in tree_leaves((args, kwargs)) if isinstance(part, torch.Tensor)]
        on_gpu = any(part.device == META for part in there)
        copies = moves or func is _aten.copy_.default or (self.lenient and func is _aten.index.Tensor)
        if on_gpu and not copies and any(part.dim() and part.device != META for part in there):
            raise AssertionError(f"{func} mixes tensors of the GPU with others")
        out = func(*args, **kwargs)
        for part in tree_leaves(out):
            large = isinstance(part, torch.Tensor) and part.device == META and part.dtype == torch.float64
            if large and not self.lenient:
                raise AssertionError(f"{func} computes in float64")
        return out
