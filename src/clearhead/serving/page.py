"""The page: one document with its style and its script inside, so that no path of a request ever reaches the disk."""

import re
from functools import cache

from starlette.responses import Response
from starlette.types import ASGIApp

from clearhead.pages.serve import serve_page
from clearhead.serving.endpoints import Endpoint, ServedCall


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


ENDPOINTS = [Endpoint("GET", "/", "The page.", _show, media="text/html", open=True)]
