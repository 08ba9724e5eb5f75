"""Connections over real sockets: slow clients, endless heads, clients that never read, too many of them; the end."""

import asyncio
import json
import re
import socket
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from clearhead.serving import connections, running
from clearhead.serving.connections import Connection
from tests.serving.fake import FakeRoom
from tests.serving.live import PATIENCE, Live, live

LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n"

MADE: list[Connection] = []
"""All connections that were made."""


class ScenicRoom(FakeRoom):
    """A room with a line that waits, one with a huge answer and one that streams without end."""

    async def answer(self, model: Any, lines: Any, **named: Any) -> Any:
        if lines == ["wait"]:
            self.hold = asyncio.Event()
        found = await super().answer(model, lines, **named)
        if lines == ["huge"]:
            found[0].answers[0]["text"] = "x" * (20 << 20)
        return found

    async def stream(self, model: Any, line: str, **named: Any) -> Any:
        try:
            while line == "endless":
                yield {"text": "A" * 1_000}
            async for piece in super().stream(model, line, **named):
                yield piece
        finally:
            self.left.set()


@pytest.fixture(scope="module")
def server() -> Iterator[Live]:
    """A server that loses patience early."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Connection, "head_seconds", 0.4)
        patch.setattr(Connection, "read_seconds", 0.4)
        patch.setattr(Connection, "most", 20)
        patch.setattr(running, "TICKS", 1)
        made = Connection.connection_made

        def noted(self: Connection, transport: Any) -> None:
            MADE.append(self)
            made(self, transport)

        patch.setattr(Connection, "connection_made", noted)
        with live(ScenicRoom) as found:
            yield found


def head(server: Live, body: bytes, path: str = "/api/run") -> bytes:
    words = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Type: application/json\r\n"
    return words.encode() + b"Content-Length: %d\r\n\r\n" % len(body)


def run_of(line: str, **more: Any) -> bytes:
    return json.dumps({"lines": [line]} | more).encode()


def all_of(connection: socket.socket) -> bytes:
    """What comes until the server closes the connection."""
    parts = []
    try:
        while part := connection.recv(1 << 16):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def alive(server: Live) -> None:
    assert httpx.get(f"{server.url}v2/health/live", timeout=PATIENCE).json() == {"live": True}


def test_a_silent_connection_is_closed(server: Live) -> None:
    with server.connect() as connection:
        assert all_of(connection) == b""


def test_a_head_that_drips_is_closed(server: Live) -> None:
    """Slowloris: a byte now and then would keep uvicorn's own timer from ever ending the connection."""
    with server.connect(b"GET /v2/health/live HTTP/1.1\r\nHost: ") as connection:
        stop = threading.Event()

        def drip() -> None:
            try:
                while not stop.wait(0.02):
                    connection.sendall(b"x")
            except OSError:
                pass

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            assert all_of(connection) == b""
        finally:
            stop.set()
            dripping.join()
    alive(server)


def test_empty_lines_after_a_request_do_not_keep_a_connection(server: Live) -> None:
    with server.connect(LIVE % server.port) as connection:
        stop = threading.Event()

        def drip() -> None:
            try:
                while not stop.wait(0.02):
                    connection.sendall(b"\r\n")
            except OSError:
                pass

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            assert all_of(connection).startswith(b"HTTP/1.1 200 OK")
        finally:
            stop.set()
            dripping.join()


def test_a_head_without_end_is_refused(server: Live) -> None:
    """One line without an end: the parser has no header to report, so that only the bytes can be counted."""
    with server.connect(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: ") as connection:
        try:
            for _ in range(100):
                connection.sendall(b"x" * 10_000)
        except OSError:
            return  # closed while we were sending, which is as good
        assert all_of(connection).startswith(b"HTTP/1.1 400 ")
    alive(server)


@pytest.mark.parametrize(("size", "status"), [(60_000, b"200"), (70_000, b"400")])
def test_a_long_head_that_comes_at_once_is_refused(size: int, status: bytes) -> None:
    """In one piece, so that it is complete before its bytes are counted."""
    with live(FakeRoom) as server:
        more = b"\r\nConnection: close\r\nX-Long: %b\r\n\r\n" % (b"x" * size)
        long = (LIVE % server.port).replace(b"\r\n\r\n", more)
        with server.connect(long) as connection:
            assert all_of(connection).startswith(b"HTTP/1.1 " + status)


def test_trailers_without_end_are_refused(server: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """They come after the body, where no head is counted; refused by their size, before patience ends."""
    received: list[int] = []
    take = Connection.data_received

    def counted(self: Connection, data: bytes) -> None:
        received.append(len(data))
        take(self, data)

    monkeypatch.setattr(Connection, "data_received", counted)
    begin = head(server, b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    begin += b"0\r\nX-Long: "
    with server.connect(begin) as connection, pytest.raises(OSError, match=r"reset|[Bb]roken pipe"):  # noqa: PT012
        for _ in range(10_000):
            connection.sendall(b"x" * 10_000)
    assert sum(received) < 1_000_000
    alive(server)


def test_what_is_not_http_is_400(server: Live) -> None:
    for nonsense in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"hello\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"):
        with server.connect(nonsense) as connection:
            assert all_of(connection).startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 403 "))


def test_a_client_that_never_reads_is_dropped(server: Live) -> None:
    """20 MB wait for it in our memory, and uvicorn would wait for ever."""
    body = run_of("huge")
    with server.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.sendall(head(server, body) + body)
        assert connection.recv(10, socket.MSG_PEEK)  # the answer has begun
        wait_for_none(server)
    alive(server)


def test_a_stream_that_nobody_reads_ends(server: Live) -> None:
    """The room is asked for no more than fits into the buffers, and the stream is closed."""
    server.room.left.clear()
    body = run_of("endless", stream=True)
    with server.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.sendall(head(server, body) + body)
        asyncio.run_coroutine_threadsafe(server.room.left.wait(), server.loop).result(PATIENCE)
    alive(server)


def wait_for_none(server: Live) -> None:
    """Until the server has no connection left."""

    async def none() -> None:
        while _connections():
            await asyncio.sleep(0.02)

    asyncio.run_coroutine_threadsafe(none(), server.loop).result(PATIENCE)


def _connections() -> list[Connection]:
    return [one for one in MADE if one in one.connections]


def test_a_client_that_leaves_frees_its_place(server: Live) -> None:
    room = server.room
    room.entered.clear()
    room.left.clear()
    body = run_of("wait")
    with server.connect(head(server, body) + body):
        asyncio.run_coroutine_threadsafe(room.entered.wait(), server.loop).result(PATIENCE)
        assert room.waiting == 1
    asyncio.run_coroutine_threadsafe(room.left.wait(), server.loop).result(PATIENCE)
    assert room.waiting == 0
    room.hold = None


def test_connections_beyond_the_limit_are_turned_away(server: Live) -> None:
    opened = [server.connect() for _ in range(20)]
    try:
        with server.connect() as connection:
            said = all_of(connection)
        assert said.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1" in said
    finally:
        for connection in opened:
            connection.close()
    alive(server)


def test_two_requests_behind_one_another_on_a_connection(server: Live) -> None:
    last = (LIVE % server.port).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    with server.connect(LIVE % server.port + last) as connection:
        found = all_of(connection)
    assert len(re.findall(rb"HTTP/1.1 200 OK", found)) == 2


def test_a_body_over_the_limit_is_413_to_a_client_that_sends_it_all(server: Live) -> None:
    body = b'{"lines": ["' + b"x" * (5 << 20) + b'"]}'
    reply = httpx.post(
        f"{server.url}api/run", content=body, headers={"Content-Type": "application/json"}, timeout=PATIENCE
    )
    assert reply.status_code == 413


def test_in_flight_work_is_finished_at_the_end() -> None:
    """A request and a stream are open when the server is told to stop; both get all that they asked for."""
    with live(FakeRoom) as server:
        room = server.room
        answers: list[Any] = []

        def ask(body: dict[str, Any]) -> None:
            answers.append(httpx.post(f"{server.url}api/run", json=body, timeout=PATIENCE).text)

        async def held() -> None:
            room.hold = asyncio.Event()

        asyncio.run_coroutine_threadsafe(held(), server.loop).result(PATIENCE)
        threads = [threading.Thread(target=ask, args=[{"lines": ["ab"], "stream": stream}]) for stream in (False, True)]
        for thread in threads:
            thread.start()

        async def both() -> None:
            while room.waiting < 2:
                await asyncio.sleep(0.01)

        asyncio.run_coroutine_threadsafe(both(), server.loop).result(PATIENCE)
        idle = server.connect()
        server.stop()

        async def refused() -> None:
            while True:
                try:
                    socket.create_connection(("127.0.0.1", server.port), timeout=1).close()
                except OSError:
                    room.hold.set()
                    return
                await asyncio.sleep(0.02)

        asyncio.run_coroutine_threadsafe(refused(), server.loop).result(PATIENCE)
        assert server.ended() == 0
        for thread in threads:
            thread.join(PATIENCE)
        idle.close()
    assert sorted(answers, key=len)[0] == '{"model":"shout","answers":["AB"]}'
    assert sorted(answers, key=len)[1].count("data: ") == 3


def test_what_takes_too_long_at_the_end_is_cut_off() -> None:
    with live(FakeRoom, grace_seconds=1.0) as server:
        room = server.room

        async def held() -> None:
            room.hold = asyncio.Event()

        asyncio.run_coroutine_threadsafe(held(), server.loop).result(PATIENCE)
        body = run_of("ab")
        with server.connect(head(server, body) + body) as connection:
            asyncio.run_coroutine_threadsafe(room.entered.wait(), server.loop).result(PATIENCE)
            server.stop()
            assert server.ended() == 1
            told, _, content = all_of(connection).partition(b"\r\n\r\n")
        assert room.cancelled == 1
    assert told.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 5" in told.lower()
    assert json.loads(content)["error"] == {"message": "the server is stopping", "code": "busy"}


def test_the_limits_are_what_the_documentation_says() -> None:
    assert (connections.HEAD_SECONDS, connections.READ_SECONDS, connections.CONNECTIONS) == (10.0, 20.0, 1_000)
    assert connections.HEAD_BYTES == 64 << 10
