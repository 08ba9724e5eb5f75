"""Answers that are handed out while they are written."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from clearhead.serving.catalogue import Version
from clearhead.serving.faults import Fault, TooLate, WorkerLost
from clearhead.serving.shapes import LineAnswer, StreamPiece

MOST_UNREAD = 1 << 20
"""Characters that may wait for a client who does not read."""


class OpenStream:
    """One answer on its way from a worker to a client.

    Args:
        number: by which workers know it.
        version: the model.
        message: what a worker is asked.

    If its worker dies, another one writes the same answer again, as nothing in it is left to chance; what was handed
    out already is then passed over.
    """

    def __init__(self, number: int, version: Version, message: dict[str, Any]) -> None:
        self.number, self.version, self.message = number, version, message
        self.worker: Any = None
        self.again = False
        """Whether a worker was lost over it."""
        self._items: asyncio.Queue[StreamPiece | Fault] = asyncio.Queue()
        self._said, self._written = "", ""
        self._unread = 0

    def started_again(self) -> None:
        """Another worker begins from the beginning."""
        self.again, self._written = True, ""

    def piece(self, text: str) -> None:
        """Take in what a worker wrote."""
        self._written += text
        shared = min(len(self._said), len(self._written))
        if self._said[:shared] != self._written[:shared]:
            self.fail(WorkerLost("the worker was lost, and another one would have answered differently"))
            return
        if fresh := self._written[len(self._said) :]:
            self._said = self._written
            self._unread += len(fresh)
            if self._unread > MOST_UNREAD:
                self.fail(TooLate("the answer was not read"))
            else:
                self._items.put_nowait({"text": fresh})

    def done(self, message: dict[str, Any]) -> None:
        """Take in the end."""
        if message.get("rest"):
            self.piece(message["rest"])
        self._items.put_nowait({"done": LineAnswer([message["done"]], message["warnings"])})

    def fail(self, fault: Fault) -> None:
        """End it with an error."""
        self._items.put_nowait(fault)

    async def items(self, seconds: float) -> AsyncIterator[StreamPiece]:
        """Yield what arrives, until the end; nothing for ``seconds`` is too late."""
        while True:
            try:
                async with asyncio.timeout(seconds):
                    item = await self._items.get()
            except TimeoutError:
                raise TooLate(f"nothing was written for {seconds:g} seconds") from None
            if isinstance(item, Fault):
                raise item
            self._unread -= len(item.get("text", ""))
            yield item
            if "done" in item:
                return
