"""The OpenAPI document, made from the endpoints and the models of ``clearhead.serving.wire``."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from pydantic_core import to_json
from starlette.responses import Response
from starlette.types import ASGIApp

from clearhead.constants import VERSION
from clearhead.serving.endpoints import Endpoint, ServedCall
from clearhead.serving.replies import JSON
from clearhead.serving.settings import ServeSettings

FAILURES = {
    "400": "The body is not JSON; the message says where.",
    "401": "The token is missing or wrong.",
    "403": "A foreign Host or Origin.",
    "404": "No such model or route.",
    "413": "The body is too large.",
    "415": "The body is not application/json.",
    "422": "A field is wrong; the message names its place.",
    "503": "There is no room for more work now; Retry-After says when to try again.",
    "504": "The answer was not ready by the deadline.",
}
_BARE = ("400", "413", "415", "422")
"""Failures of requests with a body."""


def document(endpoints: Sequence[Endpoint], settings: ServeSettings) -> dict[str, Any]:
    """The document, as plain data.

    Args:
        endpoints: all routes.
        settings: the limits, and whether a token is asked for.
    """
    models: list[type[BaseModel]] = []
    for endpoint in endpoints:
        models += [model for model in (endpoint.takes, endpoint.gives) if model is not None and model not in models]
    _, schemas = models_json_schema(
        [(model, "validation") for model in models], ref_template="#/components/schemas/{model}"
    )
    parts = _limited(schemas.get("$defs", {}), settings)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, settings)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "clearhead serve",
            "version": VERSION,
            "description": "Models behind an API: clearhead's own, LibreTranslate's, and OpenAI's completions.",
        },
        "paths": paths,
        "components": {
            "schemas": parts | {"Failure": _FAILURE},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


_FAILURE = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "code"],
            "properties": {
                "message": {"type": "string"},
                "code": {"type": "string"},
                "where": {"type": "string", "description": "The place of the mistake in the request."},
            },
        }
    },
}


def _operation(endpoint: Endpoint, settings: ServeSettings) -> dict[str, Any]:
    schema: dict[str, Any] = {} if endpoint.gives is None else _reference(endpoint.gives)
    found: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": _name(endpoint),
        "responses": {"200": {"description": "Done.", "content": {endpoint.media: {"schema": schema}}}},
    }
    for status, words in FAILURES.items():
        if status in _BARE and endpoint.takes is None:
            continue
        content = {"application/json": {"schema": {"$ref": "#/components/schemas/Failure"}}}
        found["responses"][status] = {"description": words} | (
            {"content": content} if not endpoint.path.startswith("/v1/") and not endpoint.key_in_body else {}
        )
    if endpoint.takes is not None:
        body = {"application/json": {"schema": _reference(endpoint.takes)}}
        found["requestBody"] = {"required": True, "content": body}
    if "{name}" in endpoint.path:
        found["parameters"] = [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}]
    if settings.token is not None and not endpoint.open:
        found["security"] = [{"token": []}]
    return found


def _name(endpoint: Endpoint) -> str:
    words = endpoint.path.replace("{", "").replace("}", "").strip("/").replace("/", "_")
    return f"{endpoint.method.lower()}_{words or 'page'}"


def _reference(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def _limited(schemas: dict[str, Any], settings: ServeSettings) -> dict[str, Any]:
    """The schemas with the limits of this server."""
    fields = {
        "RunRequest": {"lines": settings.lines_per_request},
        "ScoreRequest": {"rows": settings.lines_per_request},
    }
    for name, found in fields.items():
        for field, most in found.items():
            schemas[name]["properties"][field]["maxItems"] = most
    schemas["RunRequest"]["properties"]["lines"]["items"]["maxLength"] = settings.characters_per_line
    schemas["LookRequest"]["properties"]["line"]["maxLength"] = settings.characters_per_line
    return schemas


@cache
def document_bytes(endpoints: tuple[Endpoint, ...], settings: ServeSettings) -> bytes:
    """The document as JSON, made once: it takes longer than any other answer of the front process."""
    return to_json(document(endpoints, settings))


async def _openapi(call: ServedCall) -> ASGIApp:
    return Response(document_bytes(call.endpoints, call.settings), media_type=JSON)


ENDPOINTS = [Endpoint("GET", "/openapi.json", "This document.", _openapi, open=True)]
