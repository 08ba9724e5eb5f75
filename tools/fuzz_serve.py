"""Requests of all kinds against the server's application, in this process: none may end in 500, a traceback or a hang.

    python -m tools.fuzz_serve --count 10000 --seed 1                   # a room without models: only HTTP is tried
    python -m tools.fuzz_serve runs/demo --count 10000                  # real models, answered by worker processes

Bodies are drawn from the schemas of the OpenAPI document, some of them then spoilt: wrong types, unknown fields, huge
numbers, lone surrogates, deep nesting, bytes that are no JSON. Paths, methods and headers are spoilt too. Every
response must have one of the documented statuses and the headers for browsers; a failure must be JSON with a message.
"""

import argparse
import asyncio
import contextlib
import io
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from starlette.types import ASGIApp, Message

from clearhead.serving.app import ENDPOINTS, make_app
from clearhead.serving.openapi import document
from clearhead.serving.room import Room, names_of
from clearhead.serving.settings import ServeSettings

SECONDS = 60.0
"""A request that takes longer hangs."""
ROUND = 500
"""Requests that hypothesis draws at once: it keeps in memory all that it has drawn."""
STATUSES = {200, 400, 401, 403, 404, 405, 408, 413, 415, 422, 503, 504}
HOST = b"127.0.0.1:8000"
LIMITS: dict[str, Any] = {
    "lines_per_request": 20,
    "characters_per_line": 200,
    "body_bytes": 20_000,
    "deadline_seconds": 20.0,
}
_NAMES = ["shout", "writer", "de-en", "de", "en", "auto", "run", "beam_size", "sample", "max_length", "seed", "top_p"]
_HOSTILE = [
    *("", " ", "\x00", "\u202e", "<script>", "../../etc/passwd", "%00", "\\", '"', "\r\nX: y", "𝄞" * 50, "x" * 300),
    *("a\tb", "a ||| b", "<mask>", "<unk> </s>", "1 2 3", "'; DROP TABLE", "{{7*7}}", "\ufeff", "\u2028", "é" * 201),
]


class Unsound(AssertionError):
    """A response that should not be."""


@dataclass
class FuzzReport:
    """What was sent and what came back."""

    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    """How many responses each route gave, by status."""

    @property
    def count(self) -> int:
        """Requests in all."""
        return self.statuses.total()

    def lines(self) -> list[str]:
        """One line for each status, then for each route."""
        by_status: Counter[int] = Counter()
        for (_, status), count in self.statuses.items():
            by_status[status] += count
        routes = {route for route, _ in self.statuses}
        return [
            f"{self.count:,} requests to {len(routes)} routes; no 500, no traceback, no hang",
            "  ".join(f"{status}: {count:,}" for status, count in sorted(by_status.items())),
        ]


@dataclass(frozen=True)
class FuzzedRequest:
    """One request, as ASGI sees it."""

    method: str
    path: str
    headers: list[tuple[bytes, bytes]]
    parts: list[bytes]


# ---- what is sent ----

_texts = st.one_of(st.sampled_from(_NAMES), st.sampled_from(_HOSTILE), st.text(max_size=20))
_numbers = st.one_of(
    st.integers(-3, 70), st.integers(), st.sampled_from([10**400, -(10**400), 2**63, 2**64]), st.floats(allow_nan=False)
)
_scalars = st.one_of(st.none(), st.booleans(), _numbers, _texts)
_anything = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_texts, inner, max_size=4)
)


def _often(*strategies: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """One of them, each as often as it is named: ``one_of`` would count the parts of each."""
    return st.sampled_from(strategies).flatmap(lambda chosen: chosen)


def _mostly(usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return _often(*[usual] * 9, _scalars)


_USUAL = {
    "model": _mostly(st.sampled_from(["shout", "writer", "run"])),
    "target": _mostly(st.sampled_from(["en", "shout", "run", ""])),
    "n_best": _mostly(st.integers(1, 5)),
    "at": _mostly(st.none()),
    "settings": _often(
        *[
            st.fixed_dictionaries(
                {},
                optional={
                    "beam_size": st.integers(1, 5),
                    "max_length": st.integers(1, 20),
                    "sample": st.booleans(),
                    "seed": st.integers(0, 9),
                },
            )
        ]
        * 3,
        st.dictionaries(st.sampled_from(_NAMES), _scalars, max_size=2),
    ),
}
"""Fields whose values the schema does not tell: names of models, settings."""


def drawn_from(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a JSON schema describes: the part of JSON Schema that pydantic writes for our models."""
    if "$ref" in schema:
        return drawn_from(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    if "enum" in schema:
        return _mostly(st.sampled_from(schema["enum"]))
    if "anyOf" in schema:
        return st.one_of([drawn_from(one, schemas) for one in schema["anyOf"]])
    most = min(schema.get("maxItems", schema.get("maxLength", 5)), 5)
    low, high = schema.get("minimum", schema.get("exclusiveMinimum", -5)), schema.get("maximum", 100)
    kinds: dict[str, Callable[[], st.SearchStrategy[Any]]] = {
        "string": lambda: _texts if most else st.just(""),
        "integer": lambda: st.integers(low, max(low, high)),
        "number": lambda: st.floats(low, max(low, high)),
        "boolean": st.booleans,
        "null": st.none,
        "array": lambda: st.lists(drawn_from(schema.get("items", {}), schemas), max_size=most),
        "object": lambda: _object(schema, schemas),
    }
    kind = kinds.get(schema.get("type", ""))
    return _anything if kind is None else kind()


def _object(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    if "properties" not in schema:
        return st.dictionaries(
            st.sampled_from(_NAMES), drawn_from(schema.get("additionalProperties", {}), schemas), max_size=3
        )
    needed = schema.get("required", [])
    fields = {
        name: _USUAL[name] if name in _USUAL else drawn_from(one, schemas) for name, one in schema["properties"].items()
    }
    return st.fixed_dictionaries(
        {name: fields[name] for name in needed}, optional={name: fields[name] for name in fields if name not in needed}
    )


@st.composite
def _spoilt(draw: st.DrawFn, bodies: st.SearchStrategy[Any]) -> Any:
    """A body with one field replaced, added or left out."""
    body = draw(bodies)
    if not isinstance(body, dict):
        return draw(_anything)
    name = draw(st.one_of(st.sampled_from(sorted(body) or ["lines"]), _texts))
    if draw(st.booleans()):
        return body | {name: draw(_anything)}
    return {key: value for key, value in body.items() if key != name}


_RAW = [
    *(b"", b"{", b"[" * 50_000, b'{"lines":' * 5_000, b"nul", b"NaN", b'{"lines": [NaN]}', b"\xff\xfe", b"\x00" * 100),
    *(b'{"lines": ["\\ud800"]}', b'{"lines": ["\xed\xa0\x80"]}', b"1" * 10_000, b'"' * 9, b"{}" * 9, b" " * 19_000),
    *(b'{"lines": ["a"], "lines": 3}', b"q=%zz&target=%", b"q=a&target=shout", b"a" * 30_000, b'{"n_best": 1e999}'),
]


def bodies_of(limits: ServeSettings) -> dict[str, st.SearchStrategy[bytes]]:
    """Bodies for every route that takes one: most of them nearly right."""
    schemas = document(ENDPOINTS, limits)["components"]["schemas"]
    found = {}
    for endpoint in ENDPOINTS:
        if endpoint.takes is not None:
            right = drawn_from(schemas[endpoint.takes.__name__], schemas)
            nearly = _often(*[right] * 5, *[_spoilt(right)] * 2, _anything).map(_json)
            found[endpoint.path] = _often(*[nearly] * 8, st.sampled_from(_RAW), st.binary(max_size=60))
    return found


@st.composite
def requests(draw: st.DrawFn, bodies: Mapping[str, st.SearchStrategy[bytes]]) -> FuzzedRequest:
    """Requests: most of them nearly right."""
    endpoint = draw(st.sampled_from(_OFTEN))
    path = endpoint.path.replace("{name}", draw(st.sampled_from(_PLACES))) if "{" in endpoint.path else endpoint.path
    method = endpoint.method
    content = b"" if endpoint.takes is None else draw(bodies[endpoint.path])
    headers = [(b"host", HOST), (b"content-type", b"application/json")]
    oddity = draw(st.integers(0, 9))
    if oddity == 7:
        headers = draw(st.lists(st.tuples(st.sampled_from(_HEADERS), st.binary(max_size=30)), max_size=6)) + headers[:1]
    elif oddity == 8:
        path = draw(st.one_of(_texts.map(lambda text: f"/{text}"), st.just(f"{path}/"), st.just("*")))
    elif oddity == 9:
        method = draw(st.sampled_from(["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE", "X" * 50]))
    cut = draw(st.integers(0, len(content)))
    chunked = draw(st.booleans())
    size = (b"transfer-encoding", b"chunked") if chunked else (b"content-length", b"%d" % len(content))
    return FuzzedRequest(method, path, [*headers, size], [content[:cut], content[cut:]])


_PLACES = [*_NAMES, "x%2fy", "..", "x" * 300]
_OFTEN = [*ENDPOINTS, *[one for one in ENDPOINTS if one.takes is not None] * 6]
"""Endpoints, those that take a body more often."""
_HEADERS = [
    *(b"host", b"origin", b"authorization", b"content-type", b"content-encoding", b"expect", b"sec-fetch-site"),
    *(b"cookie", b"x-forwarded-for", b"accept", b"range", b"upgrade", b"connection"),
]


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=True).encode()


# ---- what comes back ----


async def exchanged(app: ASGIApp, request: FuzzedRequest) -> tuple[int, dict[bytes, bytes], bytes]:
    """Status, headers and body of the response."""
    messages: list[Message] = [
        {"type": "http.request", "body": part, "more_body": index < len(request.parts) - 1}
        for index, part in enumerate(request.parts)
    ]
    finished = asyncio.Event()
    found: list[Message] = []

    async def receive() -> Message:
        if messages:
            return messages.pop(0)
        await finished.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        found.append(message)

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": request.method,
        "path": request.path,
        "raw_path": request.path.encode("utf-8", "replace"),
        "root_path": "",
        "scheme": "http",
        "query_string": b"",
        "headers": request.headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
    }
    async with asyncio.timeout(SECONDS):
        await app(scope, receive, send)
    finished.set()
    if not found or found[0]["type"] != "http.response.start" or found[-1].get("more_body"):
        raise Unsound("the response is not complete")
    body = b"".join(message.get("body", b"") for message in found[1:])
    return found[0]["status"], dict(found[0]["headers"]), body


def judge(request: FuzzedRequest, status: int, headers: Mapping[bytes, bytes], body: bytes) -> None:
    """Raise ``Unsound`` for a response that should not be."""
    if status not in STATUSES:
        raise Unsound(f"status {status}: {body[:300]!r}")
    for name in (b"x-content-type-options", b"referrer-policy", b"content-security-policy", b"cache-control"):
        if name not in headers:
            raise Unsound(f"{name.decode()} is missing")
    if status >= 400:
        error = json.loads(body).get("error") if "ready" not in request.path else {"message": "", "code": ""}
        told = error if isinstance(error, str) else (error or {}).get("message")
        if not isinstance(told, str):
            raise Unsound(f"a failure without words: {body[:300]!r}")
    if b"Traceback" in body:
        raise Unsound("a traceback")
    if status == 503 and b"retry-after" not in headers and b"worker" not in body and "ready" not in request.path:
        raise Unsound("503 without Retry-After")


def fuzz(make: Callable[[ServeSettings], Room], *, count: int, start: int) -> FuzzReport:
    """Send so many requests; the first that ends badly is raised, made as small as it can be.

    Args:
        make: makes the room for these limits.
        count: requests.
        start: the seed.
    """
    limits, report = ServeSettings(**LIMITS), FuzzReport()
    from clearhead.serving.metrics import route_labels

    label = route_labels(ENDPOINTS)
    with asyncio.Runner() as runner:
        room = make(limits)
        runner.run(room.start())
        app = make_app(room, limits)

        def attack(request: FuzzedRequest) -> None:
            log = io.StringIO()
            with contextlib.redirect_stderr(log):
                status, headers, body = runner.run(exchanged(app, request))
            judge(request, status, headers, body)
            if "bug" in log.getvalue() or "Traceback" in log.getvalue():
                raise Unsound(log.getvalue())
            report.statuses[label(request.path), status] += 1

        hostile = requests(bodies_of(limits))
        try:
            for number, first in enumerate(range(0, count, ROUND)):
                examples = settings(
                    max_examples=min(ROUND, count - first),
                    database=None,
                    deadline=None,
                    phases=[Phase.generate, Phase.shrink],
                    suppress_health_check=list(HealthCheck),
                )
                seed(1000 * start + number)(examples(given(hostile)(attack)))()
        finally:
            runner.run(room.stop(5))
    return report


def main(words: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="models, as clearhead serve takes them")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(words)

    def make(limits: ServeSettings) -> Room:
        if asked.models:
            return Room(dict(names_of(asked.models)), limits)
        sys.path.insert(0, str(Path(__file__).parent.parent))
        from tests.serving.fake import FakeRoom

        return FakeRoom(limits)

    for line in fuzz(make, count=asked.count, start=asked.seed).lines():
        print(line)


if __name__ == "__main__":
    main()
