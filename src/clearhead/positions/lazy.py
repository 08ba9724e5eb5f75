"""Attributes that are computed when they are first asked for, also in code that ``torch.compile`` reads."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

import torch

Value = TypeVar("Value")


class once(Generic[Value]):  # noqa: N801 - used as a decorator
    """``functools.cached_property`` without its lock, which torch cannot compile.

    While a graph is compiled, the value is computed each time: the compiler finds equal computations by itself.

    Args:
        make: the method that computes the value.
    """

    def __init__(self, make: Callable[[Any], Value]) -> None:
        self._make, self.__doc__ = make, make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> "once[Value]": ...

    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...

    def __get__(self, instance: object | None, owner: type) -> "once[Value] | Value":
        if instance is None:
            return self
        if torch.compiler.is_compiling():
            return self._make(instance)
        value = vars(instance)[self._name] = self._make(instance)
        return value
