"""Living figures: sliders and switches beside a claim, computed in the page by the scripts of ``clearhead.pages``.

A figure is data here: what a reader can turn, and the claims that it belongs to. Its arithmetic is a function of the
same name in ``pages/lecture-*.js``; tests/lectures/test_living.py holds its numbers against clearhead's own. The
elements are hidden until the script shows them, so that a page without scripts says nothing wrong.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from importlib.resources import files

STYLE = (files("clearhead.lectures") / "living.css").read_text(encoding="utf-8")
SCRIPT = "lecture-page.js"
"""The module that the page starts with."""


@dataclass(frozen=True)
class Slider:
    """A number between two others."""

    name: str
    label: str
    low: float
    high: float
    value: float
    step: float = 1
    base: int | None = None
    """If given, the setting is this number raised to the slider's value."""

    def html(self, identity: str) -> str:
        """The labelled element, with a place for its value."""
        base = "" if self.base is None else f' data-base="{self.base}"'
        return (
            f'<div class="control"><label for="{identity}">{escape(self.label)}</label><input type="range" '
            f'id="{identity}" name="{self.name}" min="{self.low}" max="{self.high}" step="{self.step}" '
            f'value="{self.value}"{base}><output for="{identity}"></output></div>'
        )


@dataclass(frozen=True)
class Select:
    """One of a few named settings; the first is chosen."""

    name: str
    label: str
    options: tuple[tuple[str, str], ...]
    """Value and words of each."""

    def html(self, identity: str) -> str:
        """The labelled element."""
        options = "".join(f'<option value="{value}">{escape(words)}</option>' for value, words in self.options)
        return (
            f'<div class="control"><label for="{identity}">{escape(self.label)}</label>'
            f'<select id="{identity}" name="{self.name}">{options}</select></div>'
        )


@dataclass(frozen=True)
class Switch:
    """On or off."""

    name: str
    label: str
    on: bool = True

    def html(self, identity: str) -> str:
        """The labelled element."""
        checked = " checked" if self.on else ""
        return (
            f'<div class="control"><label for="{identity}">{escape(self.label)}</label>'
            f'<input type="checkbox" id="{identity}" name="{self.name}"{checked}></div>'
        )


@dataclass(frozen=True)
class LivingFigure:
    """A figure that a reader can turn."""

    name: str
    """The name of its function in the page's script."""
    title: str
    hint: str
    """What to turn, and what to look for."""
    claims: tuple[str, ...]
    """The claims it belongs to; it stands at the first of them that is on the page, and the others link to it."""
    controls: tuple[Slider | Select | Switch, ...]

    def html(self) -> str:
        """The figure, hidden until the script shows it."""
        identity = f"living-{self.name}"
        controls = "".join(control.html(f"{identity}-{control.name}") for control in self.controls)
        return (
            f'<section class="living" id="{identity}" data-living="{self.name}" aria-labelledby="{identity}-title" '
            f'hidden>\n<h4 id="{identity}-title">Turn it: {escape(self.title)}</h4>\n<p>{escape(self.hint)}</p>\n'
            f'<div class="controls">{controls}<button type="button">as it was</button></div>\n'
            f'<p class="said" role="status"></p>\n<div class="beside pictures"></div>\n'
            '<dl class="facts"></dl>\n</section>'
        )

    def link(self) -> str:
        """What stands at the other claims of this figure."""
        return (
            f'<p data-living-link hidden><a href="#living-{self.name}">Turn it yourself: {escape(self.title)}</a></p>'
        )


def living_parts(claims: Iterator[str], figures: tuple[LivingFigure, ...]) -> dict[str, str]:
    """For each claim of a page, the living figures that stand there, or links to where they stand."""
    parts: dict[str, list[str]] = {}
    placed: set[str] = set()
    for claim in claims:
        for figure in figures:
            if claim in figure.claims:
                parts.setdefault(claim, []).append(figure.link() if figure.name in placed else figure.html())
                placed.add(figure.name)
    return {claim: "\n".join(lines) for claim, lines in parts.items()}
