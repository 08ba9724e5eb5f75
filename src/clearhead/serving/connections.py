"""Connections that do not wait for ever: uvicorn has no limit for a head that never ends or an answer never read.

A protocol class for uvicorn counts connections, bounds what a client may send before its head is complete, and can be
asked (``sweep``) to end those that are silent for too long. Bodies are the business of ``clearhead.serving.guard``.
"""

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

CONNECTIONS = 1_000
"""Connections at a time; more of them are turned away at once."""
HEAD_BYTES = 64 << 10
"""The longest head of a request."""
HEAD_SECONDS = 10.0
"""How long a head may take, from the opening of the connection or its first byte."""
READ_SECONDS = 20.0
"""How long a client may take in nothing of an answer that waits for it."""
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n"
    b"x-content-type-options: nosniff\r\n\r\n"
)


class Connection(HttpToolsProtocol):
    """One connection of a client; uvicorn makes it."""

    most = CONNECTIONS
    head_seconds = HEAD_SECONDS
    read_seconds = READ_SECONDS

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head_began: float | None = None  # None: no head is awaited
        self._head_size = 0  # bytes of the address and the headers so far
        self._loose = 0  # bytes since the last sign of progress
        self._unread = 0  # bytes of answers that the client had not taken in, …
        self._unread_since: float | None = None  # … and since when they have not become fewer

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._head_began = self.loop.time()
        if len(self.connections) > self.most:
            transport.write(_FULL)
            transport.close()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._head_began is None and (self.cycle is None or self.cycle.response_complete):
            self._head_began = self.loop.time()
        self._loose += len(data)
        super().data_received(data)
        if self._loose > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_size = 0
        if self._head_began is None:
            self._head_began = self.loop.time()

    def on_url(self, url: bytes) -> None:
        self._grow(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._grow(len(name) + len(value))
        super().on_header(name, value)

    def _grow(self, size: int) -> None:
        """Count what the head has, which may have come all at once; an exception makes the parser give up: 400."""
        self._head_size += size
        if self._head_size > HEAD_BYTES:
            raise ValueError("the head of the request is too long")

    def on_headers_complete(self) -> None:
        self._head_began, self._loose = None, 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._loose = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._loose = 0
        super().on_message_complete()

    def sweep(self, now: float) -> None:
        """End the connection if its client has kept us waiting for too long."""
        if self._head_began is not None and now - self._head_began > self.head_seconds:
            self.transport.close()  # nothing was asked that could be answered
        unread = self.transport.get_write_buffer_size()
        if not unread or unread < self._unread or self._unread_since is None:
            self._unread_since = now if unread else None
        elif now - self._unread_since > self.read_seconds:
            self.transport.abort()
        self._unread = unread
