"""Holds identities: what was seen must be within the bound, what a wrong variant gives must not be."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import IDENTITY

Hold = Callable[..., None]


@pytest.fixture
def hold(record_property: Any) -> Hold:
    """``hold(name, bound, seen, wrong)``: check an identity, and put it into the table at the end of the run."""

    def check(name: str, bound: float, seen: float, wrong: float = float("nan")) -> None:
        record_property(IDENTITY, [name, bound, float(seen), float(wrong)])
        assert seen <= bound, f"{name}: {seen:.2e} is above {bound:.0e}"
        assert math.isnan(wrong) or wrong > bound, f"{name}: the wrong variant gives {wrong:.2e} and is not rejected"

    return check
