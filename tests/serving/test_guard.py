"""What the guard turns away, each with the request that it lets through."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clearhead.serving import guard as guarding
from clearhead.serving.app import make_app
from clearhead.serving.guard import Guard
from clearhead.serving.settings import ServeSettings
from tests.serving.client import HOST, connected, error_of
from tests.serving.fake import FakeRoom

TOKEN = "correct-horse-battery-staple"
LINES = {"lines": ["ab"]}
OWN = "127.0.0.1:8000"


def app_of(**settings: Any) -> ASGIApp:
    return make_app(FakeRoom(), ServeSettings(**settings))


async def sent(app: ASGIApp, method: str = "POST", path: str = "/api/run", **named: Any) -> httpx.Response:
    async with connected(app) as client:
        if method == "POST" and "content" not in named:
            named.setdefault("json", LINES)
        return await client.request(method, path, **named)


def asked(app: ASGIApp, method: str = "POST", path: str = "/api/run", **named: Any) -> httpx.Response:
    return asyncio.run(sent(app, method, path, **named))


@pytest.mark.parametrize("host", [OWN, "localhost:8000", "LOCALHOST:8000", "[::1]:8000"])
def test_loopback_names_are_answered(host: str) -> None:
    assert asked(app_of(), headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8000", "127.0.0.1:8001", "127.0.0.1", "localhost.evil.example:8000", "", "[", "@"],
)
def test_a_name_that_was_pointed_to_this_machine_is_refused(host: str) -> None:
    """DNS rebinding: the page of evil.example, whose name now means 127.0.0.1."""
    reply = asked(app_of(), headers={"Host": host})
    assert (reply.status_code, error_of(reply)["code"]) == (403, "foreign_host")


def test_the_word_for_a_foreign_host_says_what_to_do() -> None:
    words = error_of(asked(app_of(), headers={"Host": "models.example:8000"}))["message"]
    assert "--allow-host models.example" in words


@pytest.mark.parametrize("allowed", ["models.example", "Models.Example"])
def test_an_allowed_host_is_answered_on_any_port(allowed: str) -> None:
    app = app_of(allowed_hosts=(allowed,))
    assert asked(app, headers={"Host": "models.example"}).status_code == 200
    assert asked(app, headers={"Host": "models.example:8443"}).status_code == 200
    assert asked(app, headers={"Host": "other.example"}).status_code == 403
    with_port = app_of(allowed_hosts=("models.example:8443",))
    assert asked(with_port, headers={"Host": "models.example:8443"}).status_code == 200
    assert asked(with_port, headers={"Host": "models.example"}).status_code == 403


def test_two_hosts_or_none_are_refused() -> None:
    for headers in ([], [(b"host", OWN.encode()), (b"host", b"evil.example")]):
        reply = asyncio.run(answered(app_of(), {"headers": headers}))
        assert reply[0]["status"] == 400


@pytest.mark.parametrize("origin", ["https://evil.example", "http://127.0.0.1:3000", "null", "http://localhost:8000"])
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_a_foreign_origin_is_refused(origin: str, method: str) -> None:
    path = "/api/run" if method == "POST" else "/api/models"
    reply = asked(app_of(), method, path, headers={"Origin": origin})
    assert (reply.status_code, error_of(reply)["code"]) == (403, "foreign_origin")
    assert not [name for name in reply.headers if name.startswith("access-control")]


@pytest.mark.parametrize("origin", [HOST, "https://127.0.0.1:8000", "https://trusted.example"])
def test_our_own_origin_is_answered(origin: str) -> None:
    app = app_of(origins=("https://trusted.example",))
    assert asked(app, headers={"Origin": origin}).status_code == 200


def test_a_form_of_another_site_is_refused_without_an_origin_too() -> None:
    """Only LibreTranslate's route takes forms, which other sites can send."""
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)):
        reply = asked(app_of(), path="/translate", content="q=ab&target=shout", headers=form | {"Sec-Fetch-Site": site})
        assert reply.status_code == status


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ('Application/JSON; charset="UTF-8"', 200),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("application/json; charset=utf-16", 415),
        ("application/jsonp", 415),
        ("text/plain, application/json", 415),
        ("", 415),
    ],
)
def test_only_json_is_read(kind: str, status: int) -> None:
    assert asked(app_of(), content=b'{"lines": []}', headers={"Content-Type": kind}).status_code == status


def test_a_compressed_body_is_refused() -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert asked(app_of(), content=b"{}", headers=headers).status_code == 415


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_over_the_limit_is_413(chunked: bool) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b" " * 100

    room = FakeRoom()
    app = make_app(room, ServeSettings(body_bytes=5_000))
    content: Any = parts() if chunked else b" " * 10_000
    reply = asked(app, content=content, headers={"Content-Type": "application/json"})
    assert (reply.status_code, error_of(reply)["code"]) == (413, "too_large")
    assert "5,000 bytes" in error_of(reply)["message"]
    assert room.calls == []
    assert asked(make_app(room, ServeSettings(body_bytes=10_000))).status_code == 200


def test_a_body_over_the_limit_is_not_kept() -> None:
    """The guard never holds more than the limit and one message, however long the client goes on."""
    largest = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("a body that is too large got through")

    guard = Guard(app, ServeSettings(body_bytes=1_000), port=8000)

    async def receive() -> Message:
        nonlocal largest
        largest = max(largest, guard.held)
        return {"type": "http.request", "body": b" " * 700, "more_body": True}

    (start, _) = asyncio.run(answered(guard, {"headers": posted(chunked=True)}, receive))
    assert start["status"] == 413
    assert largest <= 1_400
    assert guard.held == 0


def test_many_large_bodies_at_once_are_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarding, "BODIES_BYTES", 1_500)
    monkeypatch.setattr(guarding, "SMALL_BYTES", 999)
    release = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def slow() -> Message:
        if guard.held:
            await release.wait()
        return {"type": "http.request", "body": b" " * 1_000, "more_body": not release.is_set()}

    async def both() -> tuple[int, int]:
        first = asyncio.ensure_future(answered(guard, {"headers": posted(chunked=True)}, slow))
        while not guard.held:
            await asyncio.sleep(0)
        second = await answered(guard, {"headers": posted(chunked=True)}, now)
        release.set()
        await first
        return second[0]["status"], guard.held

    async def now() -> Message:
        return {"type": "http.request", "body": b" " * 1_000, "more_body": False}

    guard = Guard(app, ServeSettings(), port=8000)
    assert asyncio.run(both()) == (503, 0)


@pytest.mark.parametrize(
    ("token", "path", "size", "status"),
    [
        (True, "/api/run", 100, 200),
        (True, "/translate", 100, 200),
        (False, "/translate", 50, 200),  # small: the token may be in it
        (False, "/translate", 100, 503),
    ],
)
def test_whoever_has_no_token_cannot_keep_others_out(
    monkeypatch: pytest.MonkeyPatch, token: bool, path: str, size: int, status: int
) -> None:
    """Bodies without the token have filled their place."""
    for name, most in (("BODIES_BYTES", 1_000), ("UNTRUSTED_BYTES", 500), ("SMALL_BYTES", 50)):
        monkeypatch.setattr(guarding, name, most)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def endless() -> Message:
        if guard.untrusted < 500:
            return {"type": "http.request", "body": b" " * 50, "more_body": True}
        await asyncio.Event().wait()
        raise AssertionError

    async def now() -> Message:
        return {"type": "http.request", "body": b" " * size, "more_body": False}

    async def scene() -> int:
        foreign = {"path": "/translate", "headers": posted(chunked=True)}
        attack = asyncio.ensure_future(answered(guard, foreign, endless))
        while guard.untrusted < 500:
            await asyncio.sleep(0)
        key = [(b"authorization", f"Bearer {TOKEN}".encode())] if token else []
        start, *_ = await answered(guard, {"path": path, "headers": [*posted(chunked=True), *key]}, now)
        attack.cancel()
        await asyncio.gather(attack, return_exceptions=True)
        assert (guard.held, guard.untrusted) == (0, 0)
        found: int = start["status"]
        return found

    guard = Guard(app, ServeSettings(token=TOKEN), port=8000, keyed_paths=["/translate"])
    assert asyncio.run(scene()) == status


def test_a_body_that_stops_arriving_is_408() -> None:
    async def never() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("half a body got through")

    guard = Guard(app, ServeSettings(body_seconds=1_000), port=8000, silent_seconds=0.01)
    (start, _) = asyncio.run(answered(guard, {"headers": posted()}, never))
    assert start["status"] == 408
    assert (b"connection", b"close") in start["headers"]


def test_a_body_that_drips_is_408() -> None:
    """Each byte comes in time, but the whole does not."""

    async def drip() -> Message:
        await asyncio.sleep(0.005)
        return {"type": "http.request", "body": b" ", "more_body": True}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("half a body got through")

    guard = Guard(app, ServeSettings(body_seconds=0.05), port=8000)
    (start, _) = asyncio.run(answered(guard, {"headers": posted(chunked=True)}, drip))
    assert start["status"] == 408


def test_a_client_that_leaves_within_its_body_is_forgotten() -> None:
    async def gone() -> Message:
        return {"type": "http.disconnect"}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("half a body got through")

    assert asyncio.run(answered(Guard(app, ServeSettings(), port=8000), {"headers": posted()}, gone)) == []


def test_without_the_token_nothing_is_told() -> None:
    room = FakeRoom()
    app = make_app(room, ServeSettings(token=TOKEN))
    for method, path in (
        ("POST", "/api/run"),
        ("GET", "/api/models"),
        ("GET", "/api/models/shout"),
        ("GET", "/metrics"),
        ("GET", "/v1/models"),
        ("GET", "/languages"),
        ("GET", "/v2/models/shout/ready"),
        ("GET", "/nowhere"),
    ):
        for header in (
            None,
            "",
            "Bearer",
            "Bearer wrong",
            f"Basic {TOKEN}",
            f"Bearer {TOKEN}x",
            f"Bearer {TOKEN[:-1]}",
        ):
            headers = {} if header is None else {"Authorization": header}
            reply = asked(app, method, path, headers=headers)
            assert reply.status_code == 401, (path, header)
            assert reply.headers["www-authenticate"] == "Bearer"
            assert "shout" not in reply.text
    assert room.calls == []


def test_with_the_token_everything_is_answered() -> None:
    app = app_of(token=TOKEN)
    assert asked(app, headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert asked(app, headers={"Authorization": f"bearer  {TOKEN}"}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/v2/health/live", "/v2/health/ready", "/openapi.json"])
def test_what_tells_nothing_needs_no_token(path: str) -> None:
    assert asked(app_of(token=TOKEN), "GET", path).status_code == 200


def test_the_token_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hmac.compare_digest, wherever the token stands; a comparison by == would not call it."""
    import hmac

    seen: list[bytes] = []
    real = hmac.compare_digest

    def watched(one: bytes, other: bytes) -> bool:
        seen.append(one)
        return real(one, other)

    monkeypatch.setattr(hmac, "compare_digest", watched)
    app = app_of(token=TOKEN)
    assert asked(app, headers={"Authorization": "Bearer one"}).status_code == 401
    assert asked(app, path="/translate", json={"q": "ab", "target": "shout", "api_key": "two"}).status_code == 401
    assert seen == [b"one", b"two"]


@pytest.mark.parametrize("key", ["wrong", "\ud800", "", None, 7, [TOKEN]])
def test_a_wrong_api_key_is_401(key: Any) -> None:
    import json

    body = json.dumps({"q": "ab", "target": "shout", "api_key": key})
    reply = asked(app_of(token=TOKEN), path="/translate", content=body, headers={"Content-Type": "application/json"})
    assert reply.status_code in ((400,) if key == "\ud800" else (401,))


def test_every_response_has_the_headers_for_browsers() -> None:
    app = app_of()
    for method, path in (("GET", "/"), ("POST", "/api/run"), ("GET", "/nowhere"), ("PUT", "/api/run")):
        for headers in ({}, {"Host": "evil.example"}):
            found = asked(app, method, path, headers=headers).headers
            assert found["x-content-type-options"] == "nosniff"
            assert found["referrer-policy"] == "no-referrer"
            assert found["cross-origin-resource-policy"] == "same-origin"
            assert found["cache-control"] == "no-store"
            assert "frame-ancestors 'none'" in found["content-security-policy"]
            assert "default-src 'none'" in found["content-security-policy"]


def test_websockets_are_not_answered() -> None:
    app = app_of()
    assert asyncio.run(answered(app, {"type": "websocket", "headers": []})) == []


def posted(*, chunked: bool = False) -> list[tuple[bytes, bytes]]:
    size = (b"transfer-encoding", b"chunked") if chunked else (b"content-length", b"100")
    return [(b"host", OWN.encode()), (b"content-type", b"application/json"), size]


async def answered(app: ASGIApp, more: dict[str, Any], receive: Receive | None = None) -> list[Message]:
    """What an application sends for one request, which may be one that no client library would make."""
    found: list[Message] = []

    async def nothing() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        found.append(message)

    scope = {"type": "http", "method": "POST", "path": "/api/run", "query_string": b"", "headers": []} | more
    async with asyncio.timeout(30):
        await app(scope, receive or nothing, send)
    return found
