"""A cost in a notebook: a table of its parts, with bars for their shares. No script; light and dark alike."""

from collections.abc import Mapping
from html import escape
from typing import Protocol

from clearhead.costing.forms.shares import CostBlock, counted_shares, percent
from clearhead.drawing.html import fragment

_STYLE = """
.clearhead .share { display: inline-block; width: 7em; }
.clearhead .share > span { vertical-align: baseline; display: inline-block; height: .6em; background: var(--hue0); }
.clearhead .wide table tbody tr.all td { font-weight: 600; border-bottom: 0; }
"""


class ShownCost(CostBlock, Protocol):
    """A cost that is shown at lengths of its own choice."""

    @property
    def label(self) -> str:
        """What it is called."""

    @property
    def usual_lengths(self) -> Mapping[str, int]:
        """A number for each open letter."""


def cost_html(cost: ShownCost) -> str:
    """Parts, parameters and MACs of one model or block, each with its share; everything is escaped."""
    place = cost.usual_lengths
    wholes = cost.parameters.at(**place), cost.macs.at(**place)
    rows = [_row(name, parts, wholes) for name, *parts in counted_shares(cost, place)]
    rows.append(_row("all", list(wholes), wholes, bold=True))
    letters = sorted({symbol.name for symbol in cost.macs.numbers.free_symbols}, key="nmtB".index)
    where = f" at {', '.join(f'{letter} = {place[letter]}' for letter in letters)}" if letters else ""
    titles = ("parameters", "forward MACs")
    heads = "".join(f'<th scope="col" class="number">{title}</th><th scope="col">share</th>' for title in titles)
    return fragment(
        f'<div class="wide"><table><caption>{escape(cost.label)}{where}</caption>'
        f'<thead><tr><th scope="col">part</th>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>',
        style=_STYLE,
    )


def _row(name: str, parts: list[int], wholes: tuple[int, int], *, bold: bool = False) -> str:
    cells = [f"<td>{escape(name)}</td>"]
    for part, whole in zip(parts, wholes, strict=True):
        cells.append(f'<td class="number">{f"{part:,}" if part else "–"}</td>')
        share = part / whole if whole else 0.0
        bar = f'<span class="share"><span style="width:{7 * share:.2f}em"></span></span>' if part and not bold else ""
        cells.append(f"<td>{bar}{escape(percent(part, whole)) if part and not bold else ''}</td>")
    kind = ' class="all"' if bold else ""
    return f"<tr{kind}>{''.join(cells)}</tr>"
