"""Whether Python may look at the values of a tensor to choose what to compute."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

_right_padded: ContextVar[bool] = ContextVar("right_padded", default=False)


def may_branch(values: Tensor) -> bool:
    """Whether a branch may depend on the values of a tensor: on the CPU, unless a graph is being recorded.

    A GPU would have to be waited for, the meta device has no values, and a recorded graph will run on others. Callers
    then take the way that is right in all cases, which is not always the fastest one.
    """
    return values.device.type == "cpu" and not torch.compiler.is_compiling()


@contextmanager
def right_padded() -> Iterator[None]:
    """While inside, this thread promises that all padding is on the right: nobody has to look, or to wait for a GPU."""
    token = _right_padded.set(True)
    try:
        yield
    finally:
        _right_padded.reset(token)


def is_right_padded() -> bool:
    """Whether that was promised; a compiled graph keeps the promise under which it was recorded."""
    return _right_padded.get()


# what torch.compiler.assume_constant_result does, which would import the compiler, for seconds
vars(is_right_padded)["_dynamo_marked_constant"] = True


def is_exporting() -> bool:
    """Whether ``torch.export`` (and so ``torch.onnx.export``) records the computation, for lines of any length.

    Then no branch may depend on the length of a line either, and only operators that other engines know may be used.
    """
    return torch.compiler.is_exporting()
