"""The application: all endpoints, what measures them, and what guards them."""

import asyncio
import os
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clearhead.serving import api, health, libretranslate, metrics, openai, openapi, page
from clearhead.serving.endpoints import Answering
from clearhead.serving.faults import Busy
from clearhead.serving.guard import Guard
from clearhead.serving.replies import failure, fault_reply
from clearhead.serving.settings import ServeSettings

if TYPE_CHECKING:
    from clearhead.serving.room import Room

ENDPOINTS = tuple(
    endpoint for part in (page, api, libretranslate, openai, health, openapi, metrics) for endpoint in part.ENDPOINTS
)
SAFE = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]
POLICY = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
RESTART_SECONDS = 5.0
"""When a client whose request was cut off may try again."""


def make_app(
    room: "Room",
    settings: ServeSettings,
    *,
    port: int | None = None,
    log: Callable[[], TextIO] = metrics.standard_error,
) -> ASGIApp:
    """The ASGI application of a server.

    Args:
        room: what answers; started and stopped by whoever made it.
        settings: the server's settings.
        port: the port that it listens on. Default: that of the settings.
        log: where the access log goes.
    """
    openapi.document_bytes(ENDPOINTS, settings)
    routes = [
        WholeRoute(endpoint.path, Answering(endpoint, room, settings, ENDPOINTS), methods=[endpoint.method])
        for endpoint in ENDPOINTS
    ]
    router = Starlette(routes=routes, exception_handlers={HTTPException: _not_routed, Exception: _bug})
    router.router.redirect_slashes = False
    guard = Guard(
        router,
        settings,
        port=settings.port if port is None else port,
        open_paths=[endpoint.path for endpoint in ENDPOINTS if endpoint.open],
        route=metrics.route_labels(ENDPOINTS),
        keyed_paths=[endpoint.path for endpoint in ENDPOINTS if endpoint.key_in_body],
    )
    return metrics.Meter(Sealed(guard), room, ENDPOINTS, log if settings.access_log else None)


class WholeRoute(Route):
    """A route that is the whole path: Starlette's own pattern ends with $, which a line break may follow."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.path_regex = re.compile(self.path_regex.pattern.removesuffix("$") + r"\Z")


class Sealed:
    """Middleware that puts headers for browsers on every response, and ends a bug with one line on standard error.

    A request that is cut off as the server stops is answered as well, if its response has not begun.

    Args:
        app: what answers.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def sealed(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = [*message.get("headers", ()), *SAFE]
                if not any(name == POLICY[0] for name, _ in headers):
                    headers.append(POLICY)
                message = {**message, "headers": headers}
            await send(message)

        try:
            await self.app(scope, receive, sealed)
        except asyncio.CancelledError:  # the server stops, and this took longer than it could wait
            if not begun:
                await fault_reply(scope["path"], Busy("the server is stopping", RESTART_SECONDS))(
                    scope, receive, sealed
                )
            raise
        except Exception as error:
            report_bug(error)
            if not begun:
                await _bug_reply(scope["path"])(scope, receive, sealed)


def report_bug(error: Exception) -> None:
    """Say where it happened, and not with what: the message of an exception may have a client's words in it."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(place.filename).name}:{place.lineno}"
    print(f"this is a bug in clearhead: {type(error).__name__} at {where}; please report it", file=sys.stderr)
    if os.environ.get("CLEARHEAD_TRACEBACK"):
        traceback.print_exception(error)


async def _not_routed(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        return failure(path, 405, "wrong_method", f"this route takes {allowed}", headers={"Allow": allowed})
    return failure(path, error.status_code, "not_found", "there is no such route; /openapi.json lists all")


async def _bug(request: Request, error: Exception) -> Response:
    del error
    return _bug_reply(request.url.path)


def _bug_reply(path: str) -> Response:
    return failure(path, 500, "bug", "this is a bug in clearhead; the server's log says where it happened")
