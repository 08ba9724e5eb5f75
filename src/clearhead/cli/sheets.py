"""Tables for the terminal, for Markdown and for LaTeX, from the same rows."""

from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Formulaic:
    """A cell that holds a formula: plain text for a terminal, an expression for LaTeX."""

    text: str
    expression: Any
    order: str = ""
    """``O`` in front of an order of growth."""

    @property
    def latex(self) -> str:
        """For a paper; made only when it is asked for."""
        from clearhead.costing.forms.formula import latex

        written = latex(self.expression)
        return rf"{self.order}\left({written}\right)" if self.order else written


Cell = str | Formulaic


@dataclass
class Sheet:
    """A table with a title, and notes below it."""

    title: str
    columns: list[str]
    rows: list[list[Cell]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    numeric: frozenset[int] = frozenset()
    """Columns of numbers, which stand at the right edge."""


def show(sheets: list[Sheet], form: str) -> None:
    """Print tables: ``text``, ``markdown`` or ``latex``."""
    for number, sheet in enumerate(sheets):
        if number:
            print()
        {"text": _text, "markdown": _markdown, "latex": _latex}[form](sheet)


def _plain(cell: Cell) -> str:
    return cell.text if isinstance(cell, Formulaic) else cell


def _text(sheet: Sheet) -> None:
    console = Console(highlight=False)
    table = Table(title=sheet.title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for index, name in enumerate(sheet.columns):
        options: dict[str, Any] = {"no_wrap": True} if index == 0 else {"overflow": "fold"}
        if index in sheet.numeric:
            options = {"justify": "right", "no_wrap": True}
        table.add_column(name, **options)
    for row in sheet.rows:
        table.add_row(*(_plain(cell).replace("[", r"\[") for cell in row))
    console.print(table)
    for note in sheet.notes:
        console.print(note, style="dim", markup=False)


def _markdown(sheet: Sheet) -> None:
    print(f"**{sheet.title}**\n")
    print("| " + " | ".join(sheet.columns) + " |")
    print("|" + "|".join("--:" if index in sheet.numeric else "---" for index in range(len(sheet.columns))) + "|")
    for row in sheet.rows:
        print("| " + " | ".join(_plain(cell).replace("|", r"\|").lstrip() or " " for cell in row) + " |")
    for note in sheet.notes:
        print(f"\n{note}")


def _latex(sheet: Sheet) -> None:
    columns = "".join("r" if index in sheet.numeric else "l" for index in range(len(sheet.columns)))
    print(f"% {sheet.title}")
    print(rf"\begin{{tabular}}{{{columns}}}")
    print(" & ".join(_escaped(name) for name in sheet.columns) + r" \\ \hline")
    for row in sheet.rows:
        cells = (f"${cell.latex}$" if isinstance(cell, Formulaic) else _escaped(cell) for cell in row)
        print(" & ".join(cells) + r" \\")
    print(r"\end{tabular}")
    for note in sheet.notes:
        print(f"% {note}")


_SPECIAL = str.maketrans(
    {char: rf"\{char}" for char in "&%#_{}"} | {"×": r"$\times$", "²": "$^2$", "−": "$-$", "…": r"\dots "}
)


def _escaped(text: str) -> str:
    return text.strip().translate(_SPECIAL)
