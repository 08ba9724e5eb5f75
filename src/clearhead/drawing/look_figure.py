"""The document of a view as one SVG for a paper: ribbons from source to answer, or the matrix of what reads what."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from numpy.typing import NDArray

from clearhead.drawing.figure import Bars, Heat
from clearhead.drawing.look_document import Document, keys_of, measure_of, stack_read, totals, visible
from clearhead.drawing.svg import LETTER, STYLE, svg

GAP, TALL, PAD, RISE = 6.0, 28.0, 9.0, 150.0
"""Pixels between tokens, their height, beside their letters, and from row to row."""
LEAST = 0.02
"""Shares below this are not drawn."""
WIDEST = 1600.0
"""Pixels beyond which tokens do not stand in two rows."""
_STYLE = """
.plot .token { fill: var(--plot-paper); stroke: var(--plot-grid); }
.plot .doubt { fill: var(--cold); }
.plot .join { fill: var(--heat); }
.plot .paper { fill: var(--plot-paper); }
.plot .word { font-size: 15px; text-anchor: middle; }
"""


def look_svg(document: Document) -> str:
    """Draw a document: ribbons if it has a source and an answer that fit, else a matrix or bars."""
    stack = stack_read(document)
    total = totals(document, stack)
    if stack == "cross" and total is not None:
        source, answer = keys_of(document, "cross"), [visible(token) for token in document["answer"]]
        if max(_wide(source), _wide(answer)) <= WIDEST:
            return _ribbons(document, source, answer, total)
    title = f"{document['text'][:60]} → {document['answer_text'][:60]}"
    if total is None:
        labels = [visible(one["token"]) for one in document["alternatives"][0]]
        values = tuple(one["probability"] for one in document["alternatives"][0])
        return svg(Bars(title, title, "probability", tuple(labels), (("", values),)), standalone=True)
    keys = keys_of(document, stack)
    rows = (
        keys if stack == "encoder" else [visible(token) for token in document.get("inputs_of", {}).get("decoder", [])]
    )
    few = len(keys) <= 40
    heat = Heat(
        title=title,
        alt=f"Rows are tokens that read, columns tokens that are read, by {measure_of(document)}.",
        x_label=f"read ({measure_of(document)}, mean of all heads)",
        y_label="reads",
        values=tuple(tuple(map(float, row)) for row in total),
        rows=tuple(rows) if few else (),
        columns=tuple(keys) if few and max(map(len, keys)) <= 4 else (),
    )
    return svg(heat, standalone=True)


def _wide(tokens: Sequence[str]) -> float:
    return sum(_width(token) + GAP for token in tokens)


def _width(token: str) -> float:
    return max(34.0, len(token) * LETTER * 1.3 + 2 * PAD)


def _boxes(tokens: Sequence[str], whole: float) -> list[tuple[float, float]]:
    """Left edge and width of every token of a row that is centred."""
    x = (whole - _wide(tokens) + GAP) / 2
    boxes = []
    for token in tokens:
        boxes.append((x, _width(token)))
        x += _width(token) + GAP
    return boxes


def _ribbons(document: Document, source: list[str], answer: list[str], total: NDArray[Any]) -> str:
    whole = max(_wide(source), _wide(answer)) + 24
    above, below = _boxes(source, whole), _boxes(answer, whole)
    top, bottom = 12.0, 12.0 + TALL + RISE
    height = bottom + TALL + 30
    title = f"{document['text']} → {document['answer_text']}"
    body = [f'<rect class="paper" width="{whole:.0f}" height="{height:.0f}"/>']
    body += _joins(total, above, below, top + TALL + 2, bottom - 2)
    for token, (x, width) in zip(source, above, strict=True):
        body += _token(token, x, top, width)
    for at, (token, (x, width)) in enumerate(zip(answer, below, strict=True)):
        log_p = document["log_probabilities"][at]
        p = None if log_p is None else float(min(1.0, 2.718281828459045**log_p))
        body += _token(token, x, bottom, width, doubt=0.0 if p is None else 0.6 * (1 - p))
        if p is not None:
            where = f'x="{x + width / 2:.1f}" y="{bottom + TALL + 17:.1f}"'
            body.append(f'<text class="small middle" {where}>{100 * p:.0f} %</text>')
    alt = f"Ribbons are as wide as the share of an answer token that a source token gives, by {measure_of(document)}."
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plot" role="img" viewBox="0 0 {whole:.0f} {height:.0f}" '
        f'width="{whole:.0f}" height="{height:.0f}"><title>{escape(title)}</title><desc>{escape(alt)}</desc>'
        f"<style>{STYLE}{_STYLE}</style>{''.join(body)}</svg>\n"
    )


def _joins(
    total: NDArray[Any], above: list[tuple[float, float]], below: list[tuple[float, float]], y0: float, y1: float
) -> Iterator[str]:
    incoming = total.sum(0)
    shrink = 1 / max(1.0, float(incoming.max()))
    used = (1 - incoming * shrink) / 2
    middle = (y0 + y1) / 2
    for i, (x, width) in enumerate(below):
        offset = 0.0
        for j, (from_x, from_width) in enumerate(above):
            share = float(total[i, j])
            s0, s1 = (from_x + from_width * (used[j] + part) for part in (0.0, share * shrink))
            t0, t1 = (x + width * (offset + part) for part in (0.0, share))
            used[j] += share * shrink
            offset += share
            if share >= LEAST:
                yield (
                    f'<path class="join" fill-opacity="{0.12 + 0.5 * share:.3f}" d="M{s0:.1f} {y0}C{s0:.1f} {middle} '
                    f"{t0:.1f} {middle} {t0:.1f} {y1}L{t1:.1f} {y1}C{t1:.1f} {middle} {s1:.1f} {middle} {s1:.1f} {y0}Z"
                    f'"><title>{share:.4f}</title></path>'
                )


def _token(token: str, x: float, y: float, width: float, doubt: float = 0.0) -> Iterator[str]:
    frame = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{TALL:.0f}" rx="6"'
    yield f'<rect class="token" {frame}/>'
    if doubt > 0:
        yield f'<rect class="doubt" fill-opacity="{doubt:.3f}" {frame}/>'
    yield f'<text class="word" x="{x + width / 2:.1f}" y="{y + 19:.1f}">{escape(token)}</text>'
