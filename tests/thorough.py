"""How many cases a test draws: some for `make test`, many for `make prove`, which sets ``CLEARHEAD_THOROUGH``."""

import os
from collections.abc import Callable
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
