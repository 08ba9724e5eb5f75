"""Breaks a part of the product on purpose, for as long as something is measured.

A wrong variant proves most when it is the product itself with one part broken: the same measure runs twice, once on the
code as it is and once while, for example, the causal mask is off by one, and must tell the two apart.

    def leaks() -> Measure:
        return Measure("derivatives ≠ 0 for j > i", 0, count(model))

    Evidence(
        measures=(leaks(),),
        wrong=(
            broken_block(
                "a mask that is off by one",
                "clearhead.attention.context.causal_mask",
                lambda right: lambda queries, keys, *rest: right(queries, keys + 1, *rest)[:, :-1],
                leaks,
            ),
        ),
    )

Results that are cached must not outlive the damage, nor hide it: a cache takes ``damage()`` as an argument.
"""

import functools
import inspect
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any

from clearhead.lectures.evidence import Measure, Wrong

Breaker = Callable[[Any], Any]
"""Takes the right function, method or value, and returns the wrong one."""
_NUMBERS = itertools.count(1)
_NOW = threading.local()


@contextmanager
def broken(name: str, wrong: Breaker) -> Iterator[None]:
    """Replace a part of the product while the block runs, in this thread; other threads keep the right one.

    Args:
        name: the full name of a function, method, property or constant:
            ``clearhead.attention.context.AttentionContext.mask``. A function is replaced in every module of clearhead
            that has imported it. A value that is not a function is replaced for all threads.
        wrong: takes the right function and returns the wrong one, which it may base on the right one. For a property
            it takes and returns the function that computes it.
    """
    before, owner, attribute = damage(), *_resolve(name)
    right = inspect.getattr_static(owner, attribute)
    replacement = _replacement(right, wrong)
    with ExitStack() as repairs:
        for place, label in _places(owner, attribute, right):
            _put(repairs, place, label, replacement)
        _NOW.damage = (*before, next(_NUMBERS))
        repairs.callback(setattr, _NOW, "damage", before)
        yield


def damage() -> tuple[int, ...]:
    """Numbers of what is broken now in this thread, no two alike; empty while the product is whole."""
    now: tuple[int, ...] = getattr(_NOW, "damage", ())
    return now


def broken_block(what: str, name: str, wrong: Breaker, measure: Callable[[], Measure]) -> Wrong:
    """Measure the product while one of its parts is broken.

    Args:
        what: what is wrong about it, for the reader.
        name, wrong: what to break, and how, as in ``broken``.
        measure: the measure that also runs on the unbroken product. A product that is broken so badly that it raises
            an error is rejected as well; the error is what was observed.
    """
    with broken(name, wrong):
        try:
            found = measure()
        except (RuntimeError, ValueError, IndexError, TypeError) as failure:
            found = Measure("it runs", "runs", f"fails: {type(failure).__name__}")
    return Wrong(what, found, broken=name)


def _resolve(name: str) -> tuple[Any, str]:
    """The module or class, and the attribute's name."""
    parts = name.split(".")
    for split in range(len(parts) - 1, 0, -1):
        try:
            owner: Any = import_module(".".join(parts[:split]))
        except ModuleNotFoundError:
            continue
        for part in parts[split:-1]:
            owner = getattr(owner, part)
        return owner, parts[-1]
    raise ModuleNotFoundError(name)


def _replacement(right: Any, wrong: Breaker) -> Any:
    """What to put in place of ``right``, of the same kind."""
    if isinstance(right, property):
        return property(_in_this_thread(right.fget, wrong(right.fget)))
    if isinstance(right, staticmethod | classmethod):
        return type(right)(_in_this_thread(right.__func__, wrong(right.__func__)))
    if isinstance(right, FunctionType):
        return _in_this_thread(right, wrong(right))
    return wrong(right)


def _in_this_thread(right: Any, wrong: Any) -> Any:
    """Call the wrong function in the thread that breaks it, and the right one in any other."""
    mine = threading.get_ident()

    @functools.wraps(right)
    def either(*args: Any, **options: Any) -> Any:
        return (wrong if threading.get_ident() == mine else right)(*args, **options)

    return either


def _places(owner: Any, attribute: str, right: Any) -> list[tuple[Any, str]]:
    """Where it must be replaced: a function of a module also wherever it was imported by name."""
    places = [(owner, attribute)]
    if isinstance(owner, ModuleType) and isinstance(right, FunctionType):
        for module in [one for name, one in sys.modules.items() if name.split(".")[0] == "clearhead"]:
            places += [(module, label) for label, value in vars(module).items() if value is right]
    return list({(id(place), label): (place, label) for place, label in places}.values())


def _put(repairs: ExitStack, place: Any, label: str, replacement: Any) -> None:
    """Set an attribute; the stack undoes it, also where it was inherited and not the place's own."""
    own = vars(place)
    if label in own:
        repairs.callback(setattr, place, label, own[label])
    else:
        repairs.callback(delattr, place, label)
    setattr(place, label, replacement)
