"""Scores in a notebook: a table with the intervals drawn, and the worst lines below."""

from collections.abc import Mapping, Sequence
from html import escape

from clearhead.drawing.html import fragment, table
from clearhead.evaluation.lines import ScoredLine
from clearhead.evaluation.metrics import Metric
from clearhead.recipe import metric_kinds

LONGEST = 200
"""Characters that are shown of a text."""
_WIDTH, _HEIGHT = 160, 14
_STYLE = """
.clearhead .wide table th { white-space: nowrap; }
.clearhead .wide table .small { opacity: .75; font-size: 11px; overflow-wrap: anywhere; }
.clearhead summary { cursor: pointer; }
"""


def scores_html(
    metrics: Mapping[str, Metric], counts: Mapping[str, int], worst: Sequence[ScoredLine], wrong: int
) -> str:
    """Scores as a part of a page; of all lines that are wrong, the worst are shown."""
    counted = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    rows = "".join(_row(name, metric) for name, metric in metrics.items())
    head = (
        '<th scope="col">metric</th><th scope="col" class="number">value</th><th scope="col" colspan="3">interval</th>'
    )
    body = (
        f'<div class="wide"><table><caption>{escape(counted)}; 95 % intervals</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
    return fragment(body + (_worst(worst, wrong) if worst else ""), style=_STYLE)


def _row(name: str, metric: Metric) -> str:
    kind = metric_kinds().get(name)
    unit = " %" if kind is not None and kind.unit == "percent" else ""
    title = escape(kind.summary) if kind is not None else ""
    interval, bar = "", ""
    if metric.low is not None and metric.high is not None:
        interval = f"[{metric.low:.2f}, {metric.high:.2f}]"
        bar = _bar(metric.value, metric.low, metric.high) if unit else ""  # the others have no scale
    return (
        f'<tr><th scope="row" title="{title}">{escape(name)}</th><td class="number">{metric.value:.2f}{unit}</td>'
        f'<td class="number">{interval}</td><td>{bar}</td><td class="small">{escape(metric.signature)}</td></tr>'
    )


def _bar(value: float, low: float, high: float) -> str:
    """A percentage as a bar, with its interval on top, as SVG."""

    def x(number: float) -> str:
        return f"{_WIDTH * min(max(number / 100, 0.0), 1.0):.1f}"

    middle = _HEIGHT / 2
    return (
        f'<svg role="img" aria-label="{value:.2f}, between {low:.2f} and {high:.2f}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}">'
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="currentColor" opacity="0.1"/>'
        f'<rect width="{x(value)}" height="{_HEIGHT}" fill="var(--hue0)" opacity="0.65"/>'
        f'<path d="M{x(low)} {middle}H{x(high)}M{x(low)} 2V{_HEIGHT - 2}M{x(high)} 2V{_HEIGHT - 2}" '
        'fill="none" stroke="currentColor" stroke-width="1.5"/></svg>'
    )


def _worst(lines: Sequence[ScoredLine], wrong: int) -> str:
    answered = lines[0].answer is not None
    what = f"{wrong:,} wrong, the worst {len(lines)}" if answered else f"the {len(lines)} most surprising lines"
    names = ["number", *(("source", "answer", "references") if answered else ("text",)), "error", "log p"]
    rows = []
    for line in lines:
        texts = (line.source, line.answer or "", " | ".join(line.references)) if answered else (line.source,)
        log_p = "" if line.log_probability is None else f"{line.log_probability:.2f}"
        rows.append([f"{line.number:,}", *map(_shortened, texts), f"{line.error:.2f}", log_p])
    last = len(names) - 1
    return f"<details><summary>{what}</summary>{table(names, rows, numbers=(0, last - 1, last))}</details>"


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
