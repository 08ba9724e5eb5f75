"""A property that is computed once."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class once(Generic[T]):  # noqa: N801 - a decorator, named like property
    """``functools.cached_property``, which before Python 3.12 holds a lock: ``torch.compile`` cannot go through it.

    Args:
        compute: the method whose result is kept, in the instance and under its own name.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> "once[T]": ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...
    def __get__(self, instance: object | None, owner: type | None = None) -> "T | once[T]":
        if instance is None:
            return self
        value = self.compute(instance)
        object.__setattr__(instance, self.name, value)  # found before this is asked again, and in frozen classes too
        return value
