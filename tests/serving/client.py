"""Requests to an application in this process, without sockets; with a name that the guard knows."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from starlette.types import ASGIApp

HOST = "http://127.0.0.1:8000"


@asynccontextmanager
async def connected(app: ASGIApp, **headers: str) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url=HOST, headers=headers) as client:
        yield client


def error_of(reply: httpx.Response) -> dict[str, Any]:
    content = reply.json()
    assert set(content) == {"error"}
    found: dict[str, Any] = content["error"]
    return found
