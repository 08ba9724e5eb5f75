"""A cost in a notebook: a table of its parts, with bars for their shares. No script; light and dark alike."""

from collections.abc import Mapping
from html import escape
from typing import Protocol

from clearhead.costing.forms.shares import CostBlock, counted_shares, percent

_CELL = "text-align:right;padding:0.1em 0.6em;border:none;background:none;color:inherit"
_NAME = _CELL.replace("right", "left", 1)
# the bar has the colour of the text, so that it shows on any background
_BAR = "display:inline-block;vertical-align:middle;height:0.6em;background:currentColor;opacity:0.45"


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
    heads = "".join(f'<th style="{_CELL}" colspan="2">{head}</th>' for head in ("parameters", f"forward MACs{where}"))
    return (
        f'<table style="border-collapse:collapse;border:none;background:none;color:inherit">'
        f'<caption style="text-align:left;color:inherit">{escape(cost.label)}</caption>'
        f'<thead><tr><th style="{_NAME}">part</th>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    )


def _row(name: str, parts: list[int], wholes: tuple[int, int], *, bold: bool = False) -> str:
    weight = ";font-weight:bold" if bold else ""
    cells = [f'<td style="{_NAME}{weight}">{escape(name)}</td>']
    for part, whole in zip(parts, wholes, strict=True):
        cells.append(f'<td style="{_CELL}{weight}">{f"{part:,}" if part else "–"}</td>')
        share = 100 * part / whole if whole else 0.0
        bar = f'<span style="{_BAR};width:{share * 0.06:.2f}em"></span> ' if part and not bold else ""
        cells.append(f'<td style="{_NAME}{weight}">{bar}{percent(part, whole) if part else ""}</td>')
    return f"<tr>{''.join(cells)}</tr>"
