"""Whether a graph is being recorded for inputs of any length and any padding."""

import torch


def is_exporting() -> bool:
    """Whether ``torch.export`` (and so ``torch.onnx.export``) records the computation.

    The graph will run on other lines: no branch may then depend on the values of a tensor or on the length of a line.
    Every caller takes the way that is right in all cases, which is not always the fastest one.
    """
    return torch.compiler.is_exporting()
