"""An endpoint: one route with what it takes and gives; router, guard, metrics and OpenAPI document read it here."""

import hmac
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from clearhead.serving.faults import Fault
from clearhead.serving.leaving import unless_client_leaves
from clearhead.serving.replies import ClientLeft, failure, fault_reply
from clearhead.serving.settings import ServeSettings
from clearhead.serving.wire import BadBody, GivenBody, TakenBody, checked, read_json

if TYPE_CHECKING:
    from clearhead.serving.room import Room

FORM = b"application/x-www-form-urlencoded"


@dataclass(frozen=True)
class ServedCall:
    """One request, checked."""

    room: "Room"
    settings: ServeSettings
    path: str
    body: Any = None
    """An object of the endpoint's ``takes``."""
    params: Mapping[str, str] = field(default_factory=dict)
    """What stands in the path: {"name": "g2p"}."""
    endpoints: "tuple[Endpoint, ...]" = ()
    """All endpoints of the server."""
    registry: Any = None
    """The server's metrics."""


@dataclass(frozen=True)
class Endpoint:
    """One route."""

    method: str
    path: str
    summary: str
    handle: Callable[[ServedCall], Awaitable[ASGIApp]]
    """Answers a call; cancelled when the client leaves."""
    takes: type[TakenBody] | None = None
    gives: type[GivenBody] | None = None
    """What a success looks like; None if it is no JSON of a fixed shape."""
    media: str = "application/json"
    """The type of a success."""
    open: bool = False
    """Whether it is answered without a token: it tells nothing of models or texts."""
    key_in_body: bool = False
    """Whether the token may stand in the body as api_key, and the body may be a form: LibreTranslate's way."""


class Answering:
    """The ASGI application of one endpoint.

    Args:
        endpoint: its description.
        room: what answers.
        settings: the server's settings.
        endpoints: all endpoints of the server.
    """

    def __init__(
        self, endpoint: Endpoint, room: "Room", settings: ServeSettings, endpoints: tuple[Endpoint, ...]
    ) -> None:
        self.endpoint, self.room, self.settings, self.endpoints = endpoint, room, settings, endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            reply = await self._reply(scope, receive)
            await reply(scope, receive, send)
        except ClientLeft:
            scope["state"]["left"] = True

    async def _reply(self, scope: Scope, receive: Receive) -> ASGIApp:
        path = self.endpoint.path
        try:
            body = await Request(scope, receive).body() if self._reads_body else b""
            value = self._value(scope, body)
            if self.endpoint.key_in_body and (refusal := self._wrong_key(scope, value)):
                return refusal
            takes, lines = self.endpoint.takes, self.settings.lines_per_request
            taken = None if takes is None else checked(takes, value, lines)
            params, registry = scope.get("path_params", {}), scope["state"].get("metrics")
            call = ServedCall(self.room, self.settings, path, taken, params, self.endpoints, registry)
            del body, value, taken  # while the answer is awaited, the texts are held once
            return await unless_client_leaves(receive, self._handled(call))
        except Fault as fault:
            return fault_reply(path, fault)

    async def _handled(self, call: ServedCall) -> ASGIApp:
        return await self.endpoint.handle(call)

    @property
    def _reads_body(self) -> bool:
        return self.endpoint.takes is not None or self.endpoint.key_in_body

    def _value(self, scope: Scope, body: bytes) -> Any:
        if self.endpoint.key_in_body and is_form(scope):
            return _form(body)
        return read_json(body) if self.endpoint.takes is not None else None

    def _wrong_key(self, scope: Scope, value: Any) -> Response | None:
        """The refusal, unless the guard has found the token in a header or the body has it."""
        if scope["state"].get("trusted"):
            return None
        key = value.get("api_key") if isinstance(value, dict) else None
        if self.settings.token is None or (isinstance(key, str) and same_secret(key, self.settings.token)):
            return None
        return unauthorized(self.endpoint.path)


def is_form(scope: Scope) -> bool:
    """Whether the body is a form."""
    headers: dict[bytes, bytes] = dict(scope["headers"])
    return headers.get(b"content-type", b"").partition(b";")[0].strip().lower() == FORM


def _form(body: bytes) -> dict[str, Any]:
    """The fields of a form; numbers are numbers and true is true, as a form has only text."""
    try:
        fields = dict(parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=20))
    except ValueError:
        raise BadBody("the body is not a form in UTF-8") from None
    alternatives = fields.get("alternatives", "")
    whole = alternatives.isascii() and alternatives.isdigit() and len(alternatives) < 10
    flags = {name: fields[name] == "true" for name in _FLAGS if fields.get(name) in ("true", "false")}
    return fields | ({"alternatives": int(alternatives)} if whole else {}) | flags


_FLAGS = ("scores", "alignments")


def same_secret(given: str, token: str) -> bool:
    """Whether the token was given; takes the same time wherever the two differ."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), token.encode())


def unauthorized(path: str) -> Response:
    """The response to a request without the token."""
    words = "this server asks for its token: send the header Authorization: Bearer TOKEN"
    return failure(path, 401, "unauthorized", words, headers={"WWW-Authenticate": "Bearer"})
