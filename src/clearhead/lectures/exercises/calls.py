"""Calls an answer on the cases of an exercise, and turns what it returns into plain numbers."""

import math
from collections.abc import Sequence
from typing import Any

Plain = float | list["Plain"]
"""A number, or nested lists of numbers."""


def call(answer: Any, cases: Sequence[Sequence[Any]]) -> list[Plain]:
    """What an answer returns for each case; an answer that is not a function is the value itself."""
    if not callable(answer):
        return [plain(answer) for _ in cases]
    return [plain(answer(*map(_tensor, case))) for case in cases]


def plain(value: Any) -> Plain:
    """Tensors, arrays, tuples and numbers as lists of floats; True is 1."""
    if hasattr(value, "detach"):
        value = value.detach()
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return float(value)


def alike(mine: Plain, other: Plain, tolerance: float) -> bool:
    """Whether two results have one shape and the same numbers."""
    if isinstance(mine, list) or isinstance(other, list):
        if not (isinstance(mine, list) and isinstance(other, list)) or len(mine) != len(other):
            return False
        return all(alike(a, b, tolerance) for a, b in zip(mine, other, strict=True))
    return math.isclose(mine, other, rel_tol=tolerance, abs_tol=tolerance / 10)


def shape(value: Plain) -> tuple[int, ...]:
    """The sizes of nested lists: () for a number."""
    return (len(value), *(shape(value[0]) if value else ())) if isinstance(value, list) else ()


def _tensor(argument: Any) -> Any:
    if not isinstance(argument, list):
        return argument
    import torch

    return torch.tensor(argument)
