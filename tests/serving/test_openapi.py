"""The OpenAPI document: complete, with the limits of this server; the page and its policy."""

import re
from typing import Any

import pytest

from clearhead.serving.app import ENDPOINTS
from clearhead.serving.openapi import document
from clearhead.serving.settings import ServeSettings
from tests.serving.test_api import got, posted_to


def references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [found for part in value.values() for found in references(part)]
    return [found for part in value for found in references(part)] if isinstance(value, list) else []


def test_every_endpoint_is_described() -> None:
    found = got("/openapi.json").json()
    assert found["openapi"].startswith("3.1")
    listed = {(method.upper(), path) for path, methods in found["paths"].items() for method in methods}
    assert listed == {(endpoint.method, endpoint.path) for endpoint in ENDPOINTS}
    names = [operation["operationId"] for methods in found["paths"].values() for operation in methods.values()]
    assert len(set(names)) == len(names)


def test_every_reference_leads_somewhere() -> None:
    found = document(ENDPOINTS, ServeSettings())
    schemas = found["components"]["schemas"]
    assert len(references(found)) > 20
    assert {name.removeprefix("#/components/schemas/") for name in references(found)} <= set(schemas)


def test_limits_are_those_of_the_server() -> None:
    schemas = document(ENDPOINTS, ServeSettings(lines_per_request=7, characters_per_line=9))["components"]["schemas"]
    lines = schemas["RunRequest"]["properties"]["lines"]
    assert (lines["maxItems"], lines["items"]["maxLength"]) == (7, 9)


def test_a_token_is_described_where_it_is_asked_for() -> None:
    paths = document(ENDPOINTS, ServeSettings(token="x" * 20))["paths"]
    assert paths["/api/run"]["post"]["security"] == [{"token": []}]
    assert "security" not in paths["/v2/health/live"]["get"]
    assert "security" not in document(ENDPOINTS, ServeSettings())["paths"]["/api/run"]["post"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/run", {"lines": ["ab"], "n_best": 2}),
        ("/api/run", {"lines": ["ab"]}),
        ("/api/score", {"rows": [["a", "b"]]}),
        ("/translate", {"q": ["a"], "target": "en", "alternatives": 1}),
        ("/v1/completions", {"model": "writer", "prompt": "a", "logprobs": 1}),
        ("/api/models", None),
        ("/v1/models", None),
    ],
)
def test_responses_are_what_the_document_says(path: str, body: Any) -> None:
    endpoint = next(one for one in ENDPOINTS if one.path == path)
    assert endpoint.gives is not None
    reply = got(path) if body is None else posted_to(path, body)
    assert reply.status_code == 200
    endpoint.gives.model_validate_json(reply.content)
    with pytest.raises(ValueError, match="validation error"):
        endpoint.gives.model_validate_json(b"{}")


def test_the_page_may_be_framed_by_nobody_and_load_nothing_else() -> None:
    reply = got("/")
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    policy = reply.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in policy
    inside = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', reply.text)
    assert inside
    assert policy == f"{inside[1]}; frame-ancestors 'none'"
