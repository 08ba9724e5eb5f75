"""A page of the site that no file of docs/ holds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Page:
    """Markdown, and where it stands."""

    path: str
    """Below docs/, as links name it."""
    title: str
    """What the navigation calls it."""
    text: str
