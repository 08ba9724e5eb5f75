"""Work that ends when the client that asked for it leaves."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

from clearhead.serving.replies import ClientLeft

Result = TypeVar("Result")


async def unless_client_leaves(receive: Receive, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of the work; if the client closes its connection first, the work is cancelled: ``ClientLeft``.

    ``receive`` is the connection's, with the body read already.
    """
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientLeft
        return working.result()
    finally:
        watching.cancel()
        if not working.done():
            working.cancel()
            await ended(working)


async def ended(task: Awaitable[Any]) -> None:
    """Wait until a cancelled task has ended, whatever it raises."""
    await asyncio.gather(task, return_exceptions=True)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
