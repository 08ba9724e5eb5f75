"""What a request must be like before anything looks at it: for whom, from whom, of what type, how large, how fast.

A server on this machine can be reached by every page that a browser on it shows. So the Host header must be one of the
server's names (a foreign name that was pointed to this machine is not), a foreign Origin is refused, there is no CORS,
and only JSON is read, which a form of another site cannot send. Pure ASGI: streams and disconnects pass through.
"""

import asyncio
from collections.abc import Callable, Collection
from urllib.parse import urlsplit

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clearhead.serving.endpoints import FORM, same_secret, unauthorized
from clearhead.serving.faults import Busy
from clearhead.serving.replies import failure, fault_reply
from clearhead.serving.settings import LOOPBACK, ServeSettings

SILENT_SECONDS = 5.0
"""How long a client may pause within a body."""
BODIES_BYTES = 64 << 20
"""Bytes of all bodies that are being read at a time; beyond it, requests are turned away."""
UNTRUSTED_BYTES = 16 << 20
"""The same for bodies that may have the token in them: whoever does not have it cannot fill the place of others."""
SMALL_BYTES = 64 << 10
"""A body up to this size is read in any case; the number of connections bounds their sum."""
DRAINED_BYTES, DRAINED_SECONDS = 16 << 20, 2.0
"""How much of a body that is too large is thrown away, so that the client gets to read why."""


class Rejected(Exception):
    """A request that is answered at once.

    Args:
        reply: the response.
    """

    def __init__(self, reply: Response) -> None:
        self.reply = reply
        super().__init__()


class LeftWhileSending(Exception):
    """The client has closed its connection before its request was complete."""


class Guard:
    """Middleware that lets only decent requests through, each with its whole body read.

    Args:
        app: what answers them.
        settings: hosts, origins, token, sizes.
        port: the port that the server listens on.
        open_paths: routes that are answered without a token.
        keyed_paths: routes that look for the token in their body themselves, and take forms too.
        route: the route of a path.
        silent_seconds: how long a client may pause within a body.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: ServeSettings,
        *,
        port: int,
        open_paths: Collection[str] = (),
        keyed_paths: Collection[str] = (),
        route: Callable[[str], str] = str,
        silent_seconds: float = SILENT_SECONDS,
    ) -> None:
        self.app, self.settings = app, settings
        self.open_paths, self.keyed_paths = frozenset(open_paths), frozenset(keyed_paths)
        self.route, self.silent_seconds = route, silent_seconds
        self.hosts = _hosts(settings, port)
        self.held = self.untrusted = 0
        """Bytes of all bodies that are being read, with the token and without it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = _Headers(scope)
        scope.setdefault("state", {})
        held_before = _Held()
        try:
            self._require_host(scope, headers)
            self._require_origin(scope, headers)
            scope["state"]["trusted"] = self._has_token(scope, headers)
            self._require_type(scope, headers)
            body = await self._body(scope, headers, receive, held_before)
        except Rejected as rejected:
            await rejected.reply(scope, receive, send)
            return
        except LeftWhileSending:
            return
        finally:
            self._count(scope, -held_before.bytes)
        replay = _Replay(body, receive)
        del body  # whoever reads it decides how long it is held
        await self.app(scope, replay, send)

    def _require_host(self, scope: Scope, headers: "_Headers") -> None:
        given = headers.all(b"host")
        if len(given) != 1:
            raise _rejected(scope, 400, "bad_host", "a request has one Host header")
        host = given[0].decode("latin-1").lower()
        name = _name(host)
        if host not in self.hosts and name not in self.hosts:
            shown = "".join(letter for letter in host[:80] if letter.isprintable())
            words = f"{shown!r} is not a name of this server; if it should be, start it with --allow-host {name[:80]}"
            raise _rejected(scope, 403, "foreign_host", words)

    def _require_origin(self, scope: Scope, headers: "_Headers") -> None:
        host = headers.all(b"host")[0].decode("latin-1").lower()
        own = {f"http://{host}", f"https://{host}", *self.settings.origins}
        foreign = [one for one in headers.all(b"origin") if one.decode("latin-1").lower() not in own]
        if foreign:
            raise _rejected(scope, 403, "foreign_origin", "pages of other sites may not use this server")
        site = headers.one(b"sec-fetch-site")
        if scope["method"] != "GET" and site in (b"cross-site", b"same-site") and not headers.all(b"origin"):
            raise _rejected(scope, 403, "foreign_origin", "pages of other sites may not use this server")

    def _has_token(self, scope: Scope, headers: "_Headers") -> bool:
        """Whether the token is in a header; if it must be and is not, the request ends here."""
        token = self.settings.token
        if token is None:
            return True
        kind, _, given = headers.one(b"authorization").decode("latin-1").partition(" ")
        if kind.lower() == "bearer" and same_secret(given.strip(), token):
            return True
        if self.route(scope["path"]) in self.open_paths or (scope["path"] in self.keyed_paths and not kind):
            return False
        raise Rejected(unauthorized(scope["path"]))

    def _require_type(self, scope: Scope, headers: "_Headers") -> None:
        if scope["method"] != "POST":
            return
        kind, _, rest = headers.one(b"content-type").partition(b";")
        allowed = {b"application/json", FORM} if scope["path"] in self.keyed_paths else {b"application/json"}
        charset = rest.lower().replace(b" ", b"").replace(b'"', b"")
        if kind.strip().lower() not in allowed or (charset.startswith(b"charset=") and charset != b"charset=utf-8"):
            raise _rejected(
                scope, 415, "not_json", "send JSON in UTF-8, with the header Content-Type: application/json"
            )
        if headers.one(b"content-encoding") not in (b"", b"identity"):
            raise _rejected(scope, 415, "compressed", "send the body uncompressed, without Content-Encoding")

    async def _body(self, scope: Scope, headers: "_Headers", receive: Receive, held: "_Held") -> bytes:
        """The whole body, within the limits of size and time."""
        announced = headers.one(b"content-length")
        if not announced and not headers.all(b"transfer-encoding"):
            return b""
        limit = self.settings.body_bytes
        if announced.isdigit() and int(announced[:20]) > limit:
            if headers.one(b"expect").lower() != b"100-continue":
                await _drained(receive)
            raise self._too_large(scope)
        parts: list[bytes] = []
        try:
            async with asyncio.timeout(self.settings.body_seconds):
                while True:
                    async with asyncio.timeout(self.silent_seconds):
                        message = await receive()
                    if message["type"] == "http.disconnect":
                        raise LeftWhileSending
                    self._hold(scope, held, len(message.get("body", b"")))
                    parts.append(message.get("body", b""))
                    if held.bytes > limit:
                        parts.clear()
                        await _drained(receive)
                        raise self._too_large(scope)
                    if not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            raise _rejected(scope, 408, "too_slow", "the request took too long to arrive") from None

    def _count(self, scope: Scope, size: int) -> None:
        if scope["state"].get("trusted"):
            self.held += size
        else:
            self.untrusted += size

    def _hold(self, scope: Scope, held: "_Held", size: int) -> None:
        self._count(scope, size)
        held.bytes += size
        full = self.held > BODIES_BYTES if scope["state"].get("trusted") else self.untrusted > UNTRUSTED_BYTES
        if full and held.bytes > SMALL_BYTES:
            reply = fault_reply(scope["path"], Busy("too many large requests arrive at one time; try again", 1))
            reply.headers["Connection"] = "close"
            raise Rejected(reply)

    def _too_large(self, scope: Scope) -> Rejected:
        words = f"the body may have {self.settings.body_bytes:,} bytes: send fewer lines at a time"
        return _rejected(scope, 413, "too_large", words)


class _Held:
    """Bytes that one request holds."""

    bytes = 0


class _Headers:
    """The headers of a request; names are in lower case already, by ASGI."""

    def __init__(self, scope: Scope) -> None:
        self.pairs: list[tuple[bytes, bytes]] = scope["headers"]

    def all(self, name: bytes) -> list[bytes]:
        return [value for key, value in self.pairs if key == name]

    def one(self, name: bytes) -> bytes:
        return b", ".join(self.all(name)).strip()


class _Replay:
    """``receive`` for what answers: the body that was read, then what the connection says."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self.body: bytes | None = body
        self.receive = receive

    async def __call__(self) -> Message:
        if self.body is None:
            return await self.receive()
        body, self.body = self.body, None
        return {"type": "http.request", "body": body, "more_body": False}


def _rejected(scope: Scope, status: int, code: str, words: str) -> Rejected:
    return Rejected(failure(scope["path"], status, code, words, headers={"Connection": "close"}))


async def _drained(receive: Receive) -> None:
    """Throw the rest of a body away, up to a limit: a client that still sends would not read the answer."""
    thrown = 0
    try:
        async with asyncio.timeout(DRAINED_SECONDS):
            while thrown < DRAINED_BYTES:
                message = await receive()
                thrown += len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body"):
                    return
    except TimeoutError:
        return


def _hosts(settings: ServeSettings, port: int) -> frozenset[str]:
    """Values of the Host header that are answered: loopback names and our address with the port, others as given."""
    own = [*LOOPBACK, *([] if settings.host in ("0.0.0.0", "::", "") else [settings.host])]
    bracketed = [f"[{name}]" if ":" in name else name.lower() for name in own]
    with_port = [f"{name}:{port}" for name in bracketed]
    return frozenset(
        [*with_port, *(bracketed if port == 80 else ()), *(name.lower() for name in settings.allowed_hosts)]
    )


def _name(host: str) -> str:
    """A Host header without its port."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
    return f"[{name}]" if ":" in name else name
