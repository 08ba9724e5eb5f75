"""The page of a study of heads: how important each is, with its interval, what it does, and how much heads overlap."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from clearhead.drawing import Heat, svg
from clearhead.drawing.html import NOTEBOOK_STYLE
from clearhead.pages import standalone

ROW, LEFT, WIDE, RIGHT = 22, 130, 420, 250
STYLE = """
:root { color-scheme: light dark; }
body { background: light-dark(#fff, #131519); color: light-dark(#1b1d21, #e8eaee); }
body.clearhead { margin: 0 auto; padding: 1.5rem; max-width: 64rem; }
h1 { font-size: 1.5rem; font-weight: 600; }
h2 { font-size: 1.1rem; margin-top: 2rem; }
.clearhead svg.importance { max-width: 56rem; }
.plot .whisker { stroke: var(--plot-ink); }
"""


def heads_page(study: Mapping[str, Any], *, title: str, table: str) -> str:
    """One HTML file without a script.

    Args:
        study: ``HeadStudy.as_dict()``.
        title: its heading.
        table: all numbers, as HTML.
    """
    heads = sorted(study["heads"], key=lambda head: -head["importance"])
    parts = [
        f"<h1>{escape(title)}</h1>",
        "<h2>What the loss gains when each head is switched off, in nats per token</h2>",
        _importance(heads),
        "<h2>How much heads overlap</h2>",
        f'<div class="beside">{"".join(_overlaps(study["overlap"]))}</div>',
        "<h2>All numbers</h2>",
        table.replace('<div class="wide">', '<div class="wide" tabindex="0" role="region" aria-label="All numbers">'),
    ]
    return standalone(title=title, body=f"<main>{''.join(parts)}</main>", style=NOTEBOOK_STYLE + STYLE)


def _importance(heads: Sequence[Mapping[str, Any]]) -> str:
    """Bars with their 95 % intervals; the role is written beside each."""
    ends = [0.0, *(head[key] for head in heads for key in ("importance", "low", "high") if head[key] is not None)]
    low, high = min(ends), max(ends)

    def x(value: float) -> float:
        return float(LEFT + WIDE * (value - low) / (high - low or 1.0))

    body = []
    for number, head in enumerate(heads):
        y, value = number * ROW, head["importance"]
        start, length = min(x(0), x(value)), abs(x(value) - x(0))
        body.append(f'<text class="end" x="{LEFT - 10}" y="{y + 15}">{escape(head["name"])}</text>')
        kind = "s1" if value < 0 else "s0"
        body.append(f'<rect class="bar {kind}" x="{start:.1f}" y="{y + 4}" width="{max(length, 1):.1f}" height="14"/>')
        if head["low"] is not None:
            ends_at = f'x1="{x(head["low"]):.1f}" x2="{x(head["high"]):.1f}"'
            body.append(f'<line class="whisker" {ends_at} y1="{y + 11}" y2="{y + 11}"/>')
        role = head["role"] or "–"
        told = f"{value:+.4f}  {role}" + ("" if head["score"] is None else f" {head['score']:.2f}")
        body.append(f'<text x="{LEFT + WIDE + 14}" y="{y + 15}">{escape(told)}</text>')
    height = len(heads) * ROW + 4
    body.append(f'<line class="axis" x1="{x(0):.1f}" x2="{x(0):.1f}" y1="0" y2="{height}"/>')
    best = heads[0]["name"] if heads else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plot importance" role="img" '
        f'viewBox="0 0 {LEFT + WIDE + RIGHT} {height}"><title>Importance of every head</title>'
        f"<desc>The most important head is {escape(best)}; the table has all numbers.</desc>{''.join(body)}</svg>"
    )


def _overlaps(overlap: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for stack, found in overlap.items():
        names = tuple(name.partition(".")[2] for name in found["heads"])
        heat = Heat(
            title=f"{stack}: 1 is the same attention, 0 none in common",
            alt=f"Overlap of every two heads of the {stack}.",
            x_label="head",
            y_label="head",
            values=tuple(tuple(row) for row in found["values"]),
            rows=names if len(names) <= 24 else (),
            columns=names if len(names) <= 12 else (),
        )
        yield f"<figure><figcaption>{escape(heat.title)}</figcaption>{svg(heat)}</figure>"
