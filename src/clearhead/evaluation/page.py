"""Scores in a notebook: a table with the intervals drawn, and the worst lines below. No script; dark and light."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from clearhead.evaluation.lines import ScoredLine
from clearhead.evaluation.metrics import Metric
from clearhead.recipe import metric_kinds

LONGEST = 200
"""Characters that are shown of a text."""
_WIDTH, _HEIGHT = 160, 14

# Colours are the page's own, but for one that stands out on white and on black.
_STYLE = """
.clearhead-scores { color: inherit; font: 13px/1.5 system-ui, sans-serif; }
.clearhead-scores table { border-collapse: collapse; margin: .4em 0; background: none; }
.clearhead-scores caption { text-align: left; padding: .2em 0; }
.clearhead-scores th, .clearhead-scores td { padding: .15em .7em; text-align: left; background: none; color: inherit;
  border-bottom: 1px solid rgba(128, 128, 128, .35); white-space: pre-wrap; overflow-wrap: anywhere; }
.clearhead-scores th { white-space: nowrap; }
.clearhead-scores .number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.clearhead-scores .small { opacity: .75; font-size: 11px; }
.clearhead-scores summary { cursor: pointer; }
"""
_ACCENT = "#2f86d1"


def scores_html(
    metrics: Mapping[str, Metric], counts: Mapping[str, int], worst: Sequence[ScoredLine], wrong: int
) -> str:
    """Scores as a part of a page; of all lines that are wrong, the worst are shown."""
    return "\n".join(_parts(metrics, counts, worst, wrong))


def _parts(
    metrics: Mapping[str, Metric], counts: Mapping[str, int], worst: Sequence[ScoredLine], wrong: int
) -> Iterator[str]:
    counted = ", ".join(f"{count:,} {escape(name)}" for name, count in counts.items())
    yield f'<div class="clearhead-scores"><style>{_STYLE}</style>'
    yield f"<table><caption>{counted}; 95 % intervals</caption><thead><tr><th>metric</th>"
    yield '<th class="number">value</th><th>interval</th><th></th><th></th></tr></thead><tbody>'
    yield from (_row(name, metric) for name, metric in metrics.items())
    yield "</tbody></table>"
    if worst:
        yield from _worst(worst, wrong)
    yield "</div>"


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
        f'<rect width="{x(value)}" height="{_HEIGHT}" fill="{_ACCENT}" opacity="0.65"/>'
        f'<path d="M{x(low)} {middle}H{x(high)}M{x(low)} 2V{_HEIGHT - 2}M{x(high)} 2V{_HEIGHT - 2}" '
        'fill="none" stroke="currentColor" stroke-width="1.5"/></svg>'
    )


def _worst(lines: Sequence[ScoredLine], wrong: int) -> Iterator[str]:
    answered = lines[0].answer is not None
    what = f"{wrong:,} wrong, the worst {len(lines)}" if answered else f"the {len(lines)} most surprising lines"
    names = ("source", "answer", "references") if answered else ("text",)
    heads = "".join(f"<th>{name}</th>" for name in names)
    yield f"<details><summary>{what}</summary><table><thead><tr>"
    yield f'<th class="number">number</th>{heads}<th class="number">error</th><th class="number">log p</th></tr>'
    yield "</thead><tbody>"
    for line in lines:
        texts = [line.source, line.answer or "", " | ".join(line.references)][: len(names)]
        cells = "".join(f"<td>{_text(text)}</td>" for text in texts)
        log_p = "" if line.log_probability is None else f"{line.log_probability:.2f}"
        yield f'<tr><td class="number">{line.number:,}</td>{cells}<td class="number">{line.error:.2f}</td>'
        yield f'<td class="number">{log_p}</td></tr>'
    yield "</tbody></table></details>"


def _text(text: str) -> str:
    return escape(text if len(text) <= LONGEST else text[: LONGEST - 1] + "…")
