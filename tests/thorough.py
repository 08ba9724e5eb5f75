"""How many cases a test draws: some for `make test`, many for `make prove`, which sets ``CLEARHEAD_THOROUGH``."""

import os
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

import pytest
from hypothesis import settings

THOROUGH = bool(os.environ.get("CLEARHEAD_THOROUGH"))
Test = TypeVar("Test", bound=Callable[..., Any])


def drawn(some: int, many: int, **more: Any) -> Callable[[Test], Test]:
    """Like hypothesis' ``settings``, for a test that ``make prove`` repeats with many examples."""

    def decorate(test: Test) -> Test:
        marked: Test = pytest.mark.drawn(settings(max_examples=many if THOROUGH else some, deadline=None, **more)(test))
        return marked

    return decorate


def proved_later(cases: Iterable[Any], *, but: Collection[Any]) -> list[Any]:
    """For ``parametrize``: all cases, of which ``make test`` runs those of ``but`` and ``make prove`` the others.

    A name in ``but`` that is no case is an error, so that a case that is renamed is not lost.
    """
    cases = list(cases)
    unknown = [case for case in but if case not in cases]
    if unknown:
        raise ValueError(f"no such cases: {unknown}")
    return [case if case in but else pytest.param(case, marks=pytest.mark.prove) for case in cases]
