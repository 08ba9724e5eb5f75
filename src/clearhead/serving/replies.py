"""Responses: JSON, and failures in the words and the shape that a route's clients expect."""

import math
from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json
from starlette.responses import Response

from clearhead.serving.faults import Busy, Fault, Refused

JSON = "application/json"


class ClientLeft(Exception):
    """The client has closed its connection: there is nobody to answer."""


def json_reply(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A value as JSON; numbers that JSON does not have become null."""
    return Response(to_json(content, inf_nan_mode="null"), status, headers, JSON)


def failure(
    path: str, status: int, code: str, message: str, *, where: str = "", headers: Mapping[str, str] | None = None
) -> Response:
    """A failure in the shape of the route: OpenAI's under /v1, LibreTranslate's for its two routes, ours elsewhere."""
    return json_reply(failure_body(path, status, code, message, where), status, headers)


def failure_body(path: str, status: int, code: str, message: str, where: str = "") -> dict[str, Any]:
    """The content of a failure."""
    if path.startswith("/v1/"):
        kind = "server_error" if status >= 500 else "invalid_request_error"
        return {"error": {"message": message, "type": kind, "param": where or None, "code": code}}
    if path in ("/translate", "/languages"):
        return {"error": message}
    return {"error": {"message": message, "code": code} | ({"where": where} if where else {})}


def fault_reply(path: str, fault: Fault) -> Response:
    """The response for a fault."""
    return failure(path, fault.status, fault.code, words_of(fault), where=place_of(fault), headers=_headers(fault))


def fault_body(path: str, fault: Fault) -> dict[str, Any]:
    """The content of it, for a stream that has begun."""
    return failure_body(path, fault.status, fault.code, words_of(fault), place_of(fault))


def words_of(fault: Fault) -> str:
    """What is wrong, with its place before it."""
    place, words = place_of(fault), str(fault)
    return words if words.startswith(place) else f"{place}: {words}"


def place_of(fault: Fault) -> str:
    """Where in the request the mistake is, if it is one."""
    return fault.where if isinstance(fault, Refused) else ""


def _headers(fault: Fault) -> dict[str, str]:
    return {"Retry-After": str(max(1, math.ceil(fault.retry_after)))} if isinstance(fault, Busy) else {}
