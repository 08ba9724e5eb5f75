"""Every public method has a docstring, unless it overrides one; every public class describes its arguments."""

import dataclasses
import importlib
import inspect
import pkgutil
import re
from types import FunctionType

from pydantic import BaseModel

import clearhead


def modules() -> list[str]:
    """All modules of the package except ``__main__``, which runs when it is imported."""
    found = pkgutil.walk_packages(clearhead.__path__, "clearhead.")
    return [module.name for module in found if not module.name.endswith("__main__")]


def undocumented(owner: type) -> list[str]:
    """Public methods and properties of a class that neither have a docstring nor override one that has."""
    missing = []
    for name, value in vars(owner).items():
        inner = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if (
            name.startswith("_")
            or not isinstance(inner, FunctionType)
            or inner.__qualname__ != f"{owner.__qualname__}.{name}"
        ):
            continue
        inherited = (vars(base).get(name) for base in owner.__mro__[1:])
        if not inner.__doc__ and not any(base is not None for base in inherited):
            missing.append(f"{owner.__qualname__}.{name}")
    return missing


def test_public_methods_have_docstrings() -> None:
    missing = []
    for name in modules():
        for owner in vars(importlib.import_module(name)).values():
            if inspect.isclass(owner) and owner.__module__ == name and not owner.__name__.startswith("_"):
                missing += [f"{name}: {method}" for method in undocumented(owner)]
    assert missing == []


def test_an_undocumented_method_is_found_and_an_override_is_not() -> None:
    class Base:
        def said(self) -> None:
            """Documented."""

    class Derived(Base):
        def said(self) -> None: ...

        def unsaid(self) -> None: ...

    assert [name.rpartition(".")[2] for name in undocumented(Derived)] == ["unsaid"]


def undescribed(owner: type) -> list[str]:
    """Arguments of a constructor that the docstrings of a class and its bases do not describe as ``name:``."""
    if "__init__" not in vars(owner):
        return []
    described = "\n".join(inspect.getdoc(base) or "" for base in owner.__mro__ if base is not object)
    names = [name for name in inspect.signature(owner).parameters if name not in ("args", "kwargs")]
    return [name for name in names if not re.search(rf"^ +{name}: ", described, re.MULTILINE)]


def test_public_classes_describe_their_arguments() -> None:
    """Dataclasses and specs are exempt: each of their fields has a docstring of its own."""
    classes = [getattr(clearhead, name) for name in clearhead.__all__]
    owners = [
        owner
        for owner in classes
        if inspect.isclass(owner) and not dataclasses.is_dataclass(owner) and not issubclass(owner, BaseModel)
    ]
    assert len(owners) > 20
    assert {owner.__name__: names for owner in owners if (names := undescribed(owner))} == {}


def test_an_undescribed_argument_is_found() -> None:
    class Example:
        """An example.

        Args:
            told: described.
        """

        def __init__(self, told: int, untold: int) -> None: ...

    assert undescribed(Example) == ["untold"]
