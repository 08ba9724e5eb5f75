"""The page of ``clearhead serve``."""

from clearhead.pages.document import standalone


def serve_page() -> str:
    """The page, as one HTML document."""
    return standalone(title="clearhead serve", body="<p>clearhead serve</p>", style="")
