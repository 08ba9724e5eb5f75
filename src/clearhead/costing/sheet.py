"""Answers about cost as tables: text of any width, Markdown, LaTeX, JSON and HTML from the same rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from clearhead.costing.forms.formula import latex
from clearhead.costing.layout import NARROWEST, Column, TextLine, set_table, wrapped
from clearhead.drawing.html import fragment


@dataclass(frozen=True)
class Formulaic:
    """A cell that holds a formula: plain text for a terminal, an expression for LaTeX."""

    text: str
    expression: Any
    order: str = ""
    """``O`` before an order of growth."""

    def __str__(self) -> str:
        return self.text

    @property
    def latex(self) -> str:
        """For a paper; made only when it is asked for."""
        written = latex(self.expression)
        return rf"{self.order}\left({written}\right)" if self.order else written


Cell = str | Formulaic


@dataclass
class Sheet:
    """A table with a title, and notes below it."""

    title: str
    columns: Sequence[Column]
    rows: list[list[Cell]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    subtitle: str = ""
    """What holds for all rows, such as the lengths that numbers are computed at."""

    def lines(self, width: int) -> Iterator[TextLine]:
        """For a terminal so many columns wide."""
        for text, role in ((self.title, "title"), (self.subtitle, "note")):
            if text:
                yield from (TextLine(line, role) for line in wrapped(text, width))  # type: ignore[arg-type]
        yield from set_table(self.columns, [[str(cell) for cell in row] for row in self.rows], width)
        for note in self.notes:
            yield from (TextLine(line, "note") for line in wrapped(note, width))

    def markdown(self) -> str:
        """A table for a README."""
        parts = [f"**{self.title}**\n"] if self.title else []
        parts += [f"{self.subtitle}\n"] if self.subtitle else []
        parts.append("| " + " | ".join(column.title for column in self.columns) + " |")
        parts.append("|" + "|".join("--:" if column.kind == "number" else "---" for column in self.columns) + "|")
        for row in self.rows:
            parts.append("| " + " | ".join(str(cell).replace("|", r"\|").lstrip() or " " for cell in row) + " |")
        return "\n".join([*parts, *(f"\n{note}" for note in self.notes)])

    def latex(self) -> str:
        """A table for a paper."""
        layout = "".join("r" if column.kind == "number" else "l" for column in self.columns)
        parts = [f"% {text}" for text in (self.title, self.subtitle) if text]
        parts.append(rf"\begin{{tabular}}{{{layout}}}")
        parts.append(" & ".join(_escaped(column.title) for column in self.columns) + r" \\ \hline")
        for row in self.rows:
            cells = (f"${cell.latex}$" if isinstance(cell, Formulaic) else _escaped(cell) for cell in row)
            parts.append(" & ".join(cells) + r" \\")
        return "\n".join([*parts, r"\end{tabular}", *(f"% {note}" for note in self.notes)])

    def html(self) -> str:
        """A table as a part of a page; everything is escaped."""
        numbers = [column.kind == "number" for column in self.columns]
        title = f"<caption>{escape(self.title)}</caption>" if self.title else ""
        head = "".join(
            f'<th scope="col"{_number(is_number)}>{escape(column.title)}</th>'
            for column, is_number in zip(self.columns, numbers, strict=True)
        )
        rows = "".join(f"<tr>{''.join(map(_html_cell, row, numbers))}</tr>" for row in self.rows)
        said = "".join(f'<p class="soft">{escape(note)}</p>' for note in [self.subtitle, *self.notes] if note)
        return (
            f'<div class="wide"><table>{title}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>{said}'
        )


def _number(is_number: bool) -> str:
    return ' class="number"' if is_number else ""


def _html_cell(cell: Cell, is_number: bool) -> str:
    """A cell; the name of a block inside another is indented."""
    text = str(cell)
    depth = len(text) - len(text.lstrip())
    indented = f' style="padding-left:{0.6 * depth:.1f}em"' if depth and not is_number else ""
    return f"<td{_number(is_number)}{indented}>{escape(text.lstrip())}</td>"


_SPECIAL = str.maketrans(
    {char: rf"\{char}" for char in "&%#_{}"} | {"×": r"$\times$", "²": "$^2$", "−": "$-$", "…": r"\dots "}
)


def _escaped(text: str) -> str:
    return text.strip().translate(_SPECIAL)


@dataclass
class CostReport:
    """Tables that answer a question about cost: print it, or ask for ``text``, ``markdown``, ``latex`` or ``json``."""

    sheets: list[Sheet]

    def lines(self, width: int = 80) -> Iterator[TextLine]:
        """The lines for a terminal so many columns wide (at least 40), each with its role: title, head, row or note."""
        for number, sheet in enumerate(self.sheets):
            if number:
                yield TextLine("", "row")
            yield from sheet.lines(max(width, NARROWEST))

    def text(self, width: int = 80) -> str:
        """Plain text; no line is longer than ``width``, unless a single word is."""
        return "\n".join(line.text for line in self.lines(width))

    def __str__(self) -> str:
        return self.text()

    def markdown(self) -> str:
        """Markdown tables."""
        return "\n\n".join(sheet.markdown() for sheet in self.sheets)

    def latex(self) -> str:
        """LaTeX tables, formulas as mathematics."""
        return "\n\n".join(sheet.latex() for sheet in self.sheets)

    def json(self) -> list[dict[str, Any]]:
        """Every table with its title, columns and rows, ready for ``json.dumps``."""
        return [
            {
                "title": sheet.title,
                "columns": [column.title for column in sheet.columns],
                "rows": [[str(cell) for cell in row] for row in sheet.rows],
            }
            for sheet in self.sheets
        ]

    def __repr__(self) -> str:
        return f"CostReport({', '.join(repr(sheet.title) for sheet in self.sheets)})"

    def _repr_html_(self) -> str:
        return fragment(self.html())

    def html(self) -> str:
        """All tables, as a part of a page."""
        return "".join(sheet.html() for sheet in self.sheets)
