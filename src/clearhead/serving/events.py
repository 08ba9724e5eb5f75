"""Server-sent events: ``data: …`` and an empty line for each, which a client reads while they are made."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from pydantic_core import to_json
from starlette.types import Receive, Scope, Send

from clearhead.serving.faults import Fault
from clearhead.serving.leaving import unless_client_leaves
from clearhead.serving.replies import fault_body

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"x-accel-buffering", b"no"),  # a proxy must not collect them
]
Item = TypeVar("Item")


class EventStream(Generic[Item]):
    """A response of events: see ``opened``."""

    def __init__(
        self, first: list[Item], items: AsyncIterator[Item], words: Callable[[Item], Iterable[bytes]], path: str
    ) -> None:
        self._first, self._items, self._words, self._path = first, items, words, path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        try:
            await unless_client_leaves(receive, self._sent(send))
        finally:
            await _close(self._items)

    async def _sent(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        try:
            for item in self._first:
                await self._tell(item, send)
            async for item in self._items:
                await self._tell(item, send)
        except Fault as fault:  # the status was sent, so the fault is an event
            await _tell_one(to_json(fault_body(self._path, fault)), send)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _tell(self, item: Item, send: Send) -> None:
        for data in self._words(item):
            await _tell_one(data, send)


async def opened(items: AsyncIterator[Item], words: Callable[[Item], Iterable[bytes]], path: str) -> EventStream[Item]:
    """A response of events whose first item is there: what refuses the stream is raised here, with a status of its own.

    Args:
        items: what arrives over time; closed when the client leaves, and at the end.
        words: the data of the events for one item.
        path: the route, for the shape of a failure.
    """
    first: list[Item] = []
    try:
        with suppress(StopAsyncIteration):
            first.append(await anext(items))
    except BaseException:
        await _close(items)
        raise
    return EventStream(first, items, words, path)


async def _tell_one(data: bytes, send: Send) -> None:
    await send({"type": "http.response.body", "body": b"data: " + data + b"\n\n", "more_body": True})
    await asyncio.sleep(0)  # to a client that has left, sending takes no time: let the loop see that it has


async def _close(items: AsyncIterator[Any]) -> None:
    close = getattr(items, "aclose", None)
    if close is not None:
        await close()
