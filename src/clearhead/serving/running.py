"""uvicorn as we need it: our connections, swept every second; no signals, no log, no headers of its own."""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import uvicorn
from starlette.types import ASGIApp

from clearhead.serving.connections import Connection
from clearhead.serving.descriptors import allowed_connections
from clearhead.serving.settings import ServeSettings

KEEP_ALIVE_SECONDS = 15
BACKLOG = 100
"""Connections that the system keeps while we are busy; as many are accepted before the first is turned away."""
TICKS = 10
"""uvicorn's ticks, of a tenth of a second, between two sweeps."""
_ENDING_SECONDS = 0.5
"""How long a request that is cut off may take to clean up."""


class Running(uvicorn.Server):
    """A server of one application.

    Args:
        app: the application.
        settings: how long it may take to stop.
        listener: the socket, bound already.
    """

    def __init__(self, app: ASGIApp, settings: ServeSettings, listener: socket.socket) -> None:
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL + 1)  # what matters is reported by the application
        fitting = type("FittingConnection", (Connection,), {"most": allowed_connections(Connection.most)})
        super().__init__(
            uvicorn.Config(
                app,
                http=fitting,
                ws="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=max(1, round(settings.grace_seconds)),
            )
        )
        self.listener = listener
        self.ready: Callable[[], None] | None = None
        """Called when requests are answered."""
        self.cut_off = 0
        """Requests that were not finished in time when the server stopped."""

    async def until(self, stopped: asyncio.Event) -> None:
        """Serve until the event is set, and until what is in flight then is finished."""
        serving = asyncio.ensure_future(self.serve(sockets=[self.listener]))
        waiting = asyncio.ensure_future(stopped.wait())
        try:
            await asyncio.wait((serving, waiting), return_when=asyncio.FIRST_COMPLETED)
            self.should_exit = True
            await serving
        finally:
            waiting.cancel()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # signals set the event of ``until``

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.ready is not None:
            self.ready()

    async def on_tick(self, counter: int) -> bool:
        if counter % TICKS == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                cast("Connection", connection).sweep(now)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        unfinished = set(self.server_state.tasks)  # cancelled, but not yet ended
        self.cut_off = len(unfinished)
        if unfinished:
            await asyncio.wait(unfinished, timeout=_ENDING_SECONDS)
