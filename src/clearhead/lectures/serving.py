"""Serves one page from memory on this machine alone; it reads no file and knows no other address."""

import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from clearhead.errors import ClearheadError
from clearhead.lectures.outcome import Outcome
from clearhead.lectures.page import page

HOST = "127.0.0.1"
CONNECTIONS = 32
"""Connections at one time; more of them wait."""
SECONDS = 10
"""How long a silent connection is kept."""


class PageServer(ThreadingHTTPServer):
    """A server of one page.

    Args:
        text: the page, as HTML.
        port: the port on 127.0.0.1; 0 takes a free one. ``address`` tells which.
    """

    daemon_threads = True
    request_queue_size = CONNECTIONS

    def __init__(self, text: str, *, port: int) -> None:
        self.content = text.encode()
        self._room = threading.BoundedSemaphore(CONNECTIONS)
        try:
            super().__init__((HOST, port), _Page)
        except (OSError, OverflowError) as problem:
            raise ClearheadError(f"port {port} cannot be used: {problem}; choose another with --port") from None

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{HOST}:{self.server_port}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        self._room.acquire()
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that breaks off is nobody's mistake."""


class _Page(BaseHTTPRequestHandler):
    server: PageServer
    timeout = SECONDS

    def do_GET(self) -> None:
        self._answer(with_content=True)

    def do_HEAD(self) -> None:
        self._answer(with_content=False)

    def _answer(self, *, with_content: bool) -> None:
        names = {f"{host}:{self.server.server_port}" for host in (HOST, "localhost")}
        if self.headers.get("Host") not in names:  # another site's name that was pointed to this machine
            self.send_error(403, "only for this machine")
            return
        if self.path.partition("?")[0] != "/":
            self.send_error(404, "there is only /")
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(self.server.content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        if with_content:
            self.wfile.write(self.server.content)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing about requests."""


def serve_lecture_page(
    outcomes: Sequence[Outcome], *, port: int = 8017, ready: Callable[[str], None] | None = None
) -> None:
    """Serve the page of these outcomes on 127.0.0.1 until Ctrl-C.

    Args:
        outcomes: what the page shows.
        port: the port; 0 takes a free one.
        ready: called with the address as soon as the page can be opened.
    """
    with PageServer(page(outcomes), port=port) as server:
        if ready is not None:
            ready(server.address)
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            return
