"""A server that listens, in a thread of this process."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from clearhead.serving.room import Room
from clearhead.serving.server import serve_room
from clearhead.serving.settings import ServeSettings

PATIENCE = 60.0
"""Seconds after which a test gives up: the machine may be busy."""


@dataclass
class Live:
    """A server that listens."""

    url: str
    port: int
    room: Any
    loop: asyncio.AbstractEventLoop
    stop: Callable[[], None]
    """Asks it to stop, without waiting."""
    ended: Callable[[], int]
    """Waits for the end, and tells how many requests were cut off."""

    def connect(self, *parts: bytes) -> socket.socket:
        """A connection on which these bytes were sent."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        for part in parts:
            connection.sendall(part)
        return connection


@contextmanager
def live(make: Callable[[ServeSettings], Room], **chosen: Any) -> Iterator[Live]:
    """Serve the room that is made, until the end of the block."""
    settings = ServeSettings(port=0, **chosen)
    ready: list[tuple[Any, ...]] = []
    begun = threading.Event()
    ended: list[int] = []
    failed: list[BaseException] = []

    async def main() -> None:
        room = make(settings)
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        await room.start()
        try:
            with socket.socket() as listener:
                listener.bind(("127.0.0.1", 0))

                def told(url: str) -> None:
                    ready.append((url, room, loop, lambda: loop.call_soon_threadsafe(stopped.set)))
                    begun.set()

                ended.append(await serve_room(room, settings, listener, stopped, told))
        finally:
            await room.stop(1.0)

    def run() -> None:
        try:
            asyncio.run(main())
        except BaseException as problem:
            failed.append(problem)
        finally:
            begun.set()

    thread = threading.Thread(target=run)
    thread.start()
    begun.wait(PATIENCE)
    if failed:
        raise failed[0]
    url, room, loop, stop = ready[0]

    def wait() -> int:
        thread.join(PATIENCE)
        assert not thread.is_alive()
        return ended[0]

    try:
        yield Live(url, int(url.rstrip("/").rpartition(":")[2]), room, loop, stop, wait)
    finally:
        if thread.is_alive():
            stop()
        thread.join(PATIENCE)
