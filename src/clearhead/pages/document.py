"""One self-contained HTML document, with a policy that allows its own script and style and nothing else."""

import base64
import hashlib
import json
from collections.abc import Mapping
from html import escape
from typing import Any

DATA = "data"
"""The id of the element that holds the data of a page, as JSON."""


def standalone(
    *, title: str, body: str, style: str, script: str = "", data: Mapping[str, Any] | None = None, asks: bool = False
) -> str:
    """Return an HTML document that loads nothing, and asks nobody but the server that it comes from.

    Args:
        title: the title, which is escaped here.
        body: the elements of the body, as HTML.
        style: the style sheet. Attributes ``style="…"`` are not allowed by the policy.
        script: one script; see ``clearhead.pages.script``. Default: none.
        data: what the script finds as JSON in the element with the id ``data``. Default: nothing.
        asks: whether its script may send requests to the server that it comes from. Default: no.
    """
    sheet, code = f"\n{style}\n", f"\n{script}\n"
    policy = (
        f"default-src 'none'; img-src data: blob:; style-src '{_digest(sheet)}'; base-uri 'none'; form-action 'none'"
    )
    if script:
        policy += f"; script-src '{_digest(code)}'"
    if asks:
        policy += "; connect-src 'self'"
    held = "" if data is None else f'<script type="application/json" id="{DATA}">{json_inside_html(data)}</script>\n'
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="data:,">\n<style>{sheet}</style>\n</head>\n'
        f'<body class="clearhead">\n{body}\n{held}'
        + (f'<script type="module">{code}</script>\n' if script else "")
        + "</body>\n</html>\n"
    )


def json_inside_html(data: Mapping[str, Any]) -> str:
    """JSON that no parser of HTML can take for a tag.

    >>> json_inside_html({"token": "</script>"})
    '{"token":"\\\\u003c/script>"}'
    """
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
