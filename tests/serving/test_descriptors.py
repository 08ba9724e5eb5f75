"""Connections and the limit of open files."""

import resource
import socket

import pytest

from clearhead.serving import descriptors
from clearhead.serving.connections import Connection
from clearhead.serving.running import BACKLOG, Running
from clearhead.serving.settings import ServeSettings

UNLIMITED = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("limits", "raised", "allowed"),
    [
        ((1_024, 1_024), None, 824),
        ((1_024, 4_096), (4_096, 4_096), 1_000),
        ((256, UNLIMITED), (1 << 16, UNLIMITED), 1_000),
        ((100_000, 1 << 20), None, 1_000),
        ((UNLIMITED, UNLIMITED), None, 1_000),
        ((64, 64), None, descriptors.LEAST),
    ],
)
def test_the_limit_is_raised_and_kept(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], raised: tuple[int, int] | None, allowed: int
) -> None:
    found: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda kind, pair: found.append(pair))
    assert descriptors.allowed_connections(1_000) == allowed
    assert found == ([] if raised is None else [raised])


def test_a_limit_that_may_not_be_raised_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(kind: int, pair: tuple[int, int]) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1_024, 4_096))
    monkeypatch.setattr(resource, "setrlimit", refused)
    assert descriptors.allowed_connections(1_000) == 824


def test_a_server_takes_no_more_connections_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that may be accepted in one turn of the loop, before any is turned away, fits into the reserve too."""

    async def app(scope: object, receive: object, send: object) -> None:
        raise AssertionError

    monkeypatch.setattr(resource, "getrlimit", lambda kind: (512, 512))
    with socket.socket() as listener:
        config = Running(app, ServeSettings(), listener).config
    assert isinstance(config.http, type)
    assert issubclass(config.http, Connection)
    assert config.http.most == 312
    assert config.backlog == BACKLOG <= descriptors.RESERVED // 2
