"""The page, and the files that it may ask for: a fixed table, so that no path of a request reaches the disk."""

import re
from collections.abc import Mapping
from functools import cache

from starlette.responses import Response
from starlette.types import ASGIApp

from clearhead.pages.serve import serve_page
from clearhead.serving.endpoints import Endpoint, ServedCall
from clearhead.serving.replies import failure

ASSETS: Mapping[str, tuple[str, bytes]] = {}
"""Type and content by name."""


@cache
def _page() -> tuple[bytes, str]:
    """The page, and its policy: the one that it has inside, and that no other page may frame it."""
    text = serve_page()
    inside = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', text)
    assert inside
    return text.encode(), f"{inside[1]}; frame-ancestors 'none'"


async def _show(call: ServedCall) -> ASGIApp:
    del call
    content, policy = _page()
    return Response(content, media_type="text/html", headers={"Content-Security-Policy": policy})


async def _asset(call: ServedCall) -> ASGIApp:
    found = ASSETS.get(call.params["name"])
    if found is None:
        return failure(call.path, 404, "not_found", "there is no such file")
    return Response(found[1], media_type=found[0])


ENDPOINTS = [
    Endpoint("GET", "/", "The page.", _show, media="text/html", open=True),
    Endpoint("GET", "/assets/{name}", "A file that the page needs.", _asset, media="*/*", open=True),
]
