"""What processes really send each other: the sizes of torch's collectives, counted as they are called."""

from collections import Counter
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_COLLECTIVES = {
    "allreduce_": ("all-reduce", 0),
    "allreduce_coalesced_": ("all-reduce", 0),
    "_allgather_base_": ("all-gather", 0),
    "_reduce_scatter_base_": ("reduce-scatter", 1),
}
"""By torch's names: what they are called, and which argument holds the whole tensors."""
_SILENT = ("barrier",)


class SentCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the payload of every collective that is called inside, by kind, in bytes.

    torch's ``CommDebugMode`` counts calls alone. Collectives that this class does not know are an error.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call, and note what is sent."""
        if func.namespace == "c10d":
            name = str(func.overloadpacket).rpartition(".")[2]
            if name not in _SILENT:
                kind, whole = _COLLECTIVES[name]
                parts = [args[whole]] if isinstance(args[whole], Tensor) else args[whole]
                self.bytes[kind] += sum(part.numel() * part.element_size() for part in parts)
                self.calls[kind] += 1
        return func(*args, **(kwargs or {}))
