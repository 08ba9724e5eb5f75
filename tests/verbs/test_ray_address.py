"""A wrong RAY_ADDRESS is told in one line; Ray itself need not be installed for that."""

import sys
from types import ModuleType
from typing import Any

import pytest

from clearhead.errors import ClearheadError
from clearhead.verbs import on_ray


def test_an_address_without_a_cluster_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**_: Any) -> None:
        raise ConnectionError(
            "Ray is trying to start at 10.0.0.1:6379, but is unable to\nconnect. A long story follows."
        )

    fake: Any = ModuleType("ray")
    fake.init, fake.is_initialized, fake.data = init, lambda: False, ModuleType("ray.data")
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setitem(sys.modules, "ray.data", fake.data)
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setattr(on_ray, "LOOPBACK", {})
    words = r"^RAY_ADDRESS=10\.0\.0\.1:6379: no cluster .*unable to\): correct it"
    with pytest.raises(ClearheadError, match=words), on_ray._cluster():
        pass
    monkeypatch.delenv("RAY_ADDRESS")
    with pytest.raises(ConnectionError), on_ray._cluster():  # not a mistake of the address
        pass
