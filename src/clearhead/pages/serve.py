"""The page of a server: type, read the answer, look inside. It asks the server that it comes from, and nobody else."""

from importlib.resources import files

from clearhead.pages.bundle import script
from clearhead.pages.document import standalone
from clearhead.pages.look import look_style

BODY = '<div id="serve"></div>\n<noscript><p>This page asks its server with a script of its own.</p></noscript>'


def serve_page() -> str:
    """One HTML file with everything that it needs inside, for ``GET /``; its script calls ``/api/…``."""
    own = (files("clearhead.pages") / "serve.css").read_text(encoding="utf-8")
    return standalone(title="clearhead", body=BODY, style=look_style() + own, script=script("serve-main.js"), asks=True)
