"""Whether Python may look at the values of a tensor to choose what to compute."""

import torch
from torch import Tensor


def may_branch(values: Tensor) -> bool:
    """Whether a branch may depend on the values of a tensor: on the CPU, unless a graph is being recorded.

    A GPU would have to be waited for, the meta device has no values, and a recorded graph will run on others. Callers
    then take the way that is right in all cases, which is not always the fastest one.
    """
    return values.device.type == "cpu" and not is_exporting()


def is_exporting() -> bool:
    """Whether ``torch.export`` (and so ``torch.onnx.export``) records the computation, for lines of any length.

    Then no branch may depend on the length of a line either, and only operators that other engines know may be used.
    """
    return torch.compiler.is_exporting()
