"""``training.compile``: the loss as machine code of its own, by ``torch.compile``."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from clearhead.errors import ClearheadError

Loss = Callable[[Any, Any], Tensor]
"""(model, batch) → the summed loss."""


def compiled(loss: Loss, device: torch.device, *, alone: bool = True) -> Loss:
    """The same loss, compiled when it is first called, once for all lengths of lines; for processes that train alone.

    Sizes are letters in the code, also those that happen to be equal in the first batch; only what the model itself
    decides by length, such as the path of attention (``clearhead.attention.paths``), is compiled for each case.
    """
    if not alone:  # their hooks would cut it to pieces
        raise ClearheadError("training.compile is for one process: leave it out, or train without torchrun")
    _require_compiler(device)
    made = torch.compile(loss, dynamic=True)

    def computed(model: Any, batch: Any) -> Tensor:
        _ = batch.tokens  # what counts is found before, as it depends on values
        given = _Fields()
        vars(given).update(vars(batch))
        with torch.fx.experimental._config.patch(use_duck_shape=False):
            found: Tensor = made(model, given)
        return found

    return computed


class _Fields:
    """The tensors of a batch: torch takes the sizes of what a frozen class computed for constants."""


def _require_compiler(device: torch.device) -> None:
    """Refuse if there is no C++ compiler, before anything takes time."""
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    what = "training.compile needs"
    if device.type == "cuda":
        from torch.utils._triton import has_triton

        if not has_triton():
            raise ClearheadError(f"{what} the package triton on a GPU: install it, or leave the setting out")
        return
    try:
        get_cpp_compiler()
    except (InvalidCxxCompiler, RuntimeError):
        raise ClearheadError(
            f"{what} a C++ compiler, and this machine has none: install g++ or clang++, name one in the environment "
            "variable CXX, or leave the setting out"
        ) from None
