"""``clearhead lecture`` with torch: runs demonstrations and prints their evidence."""

import json
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from clearhead.cli.lectures import COLOURS
from clearhead.drawing import svg, text
from clearhead.errors import ClearheadError
from clearhead.files import write_whole
from clearhead.lectures import Claim, Evidence, Outcome, Table, demonstrate, shown
from clearhead.lectures.formula import plain
from clearhead.lectures.page import page
from clearhead.models import use_cores


def run_claims(
    claims: Sequence[Claim], *, in_full: bool, as_json: bool, html: Path | None, figures: Path | None
) -> bool:
    """Demonstrate these claims and print what came of it; True if every one was reproduced."""
    if html is not None and not html.parent.is_dir():
        raise ClearheadError(f"{html}: the folder {html.parent} does not exist")
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, 110)  # nobody sees where a line ends
    use_cores()
    outcomes = []
    for claim in claims:
        outcome = demonstrate(claim)
        outcomes.append(outcome)
        if as_json:
            continue
        if in_full:
            _print_outcome(console, outcome)
        else:
            _print_line(console, outcome)
    if as_json:
        print(json.dumps({"claims": [outcome.as_json() for outcome in outcomes]}, ensure_ascii=False))
    elif len(outcomes) > 1:
        _print_summary(console, outcomes)
    if html is not None:
        write_whole(html, page(outcomes).encode())
    if figures is not None:
        _write_figures(figures, outcomes)
    return all(outcome.reproduced for outcome in outcomes)


def _write_figures(folder: Path, outcomes: Iterable[Outcome]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for outcome in outcomes:
        for index, figure in enumerate(outcome.evidence.figures if outcome.evidence else ()):
            write_whole(folder / f"{outcome.claim.id}-{index + 1}.svg", svg(figure, standalone=True).encode())


def _print_line(console: Console, outcome: Outcome) -> None:
    line = Text(f"{outcome.claim.id:<6} ")
    line.append("✓ " if outcome.reproduced else "✗ ", "green" if outcome.reproduced else "bold red")
    line.append(outcome.claim.title)
    line.append(f"  {outcome.claim.verdict}", COLOURS[outcome.claim.verdict])
    line.append(f"  {outcome.seconds:.1f} s", "dim")
    console.print(line)
    if not outcome.reproduced:
        _print_failure(console, outcome)


def _print_failure(console: Console, outcome: Outcome) -> None:
    if outcome.evidence is None:
        console.print(Text(f"       the demonstration failed: {outcome.error}", "red"))
        return
    for measure in outcome.evidence.measures:
        if not measure.agrees:
            found = f"predicted {measure.expectation}, observed {shown(measure.observed)}"
            console.print(Text(f"       {measure.what}: {found}", "red"))
    for wrong in outcome.evidence.wrong:
        if not wrong.rejected:
            console.print(Text(f"       a wrong variant was not rejected: {wrong.what}", "red"))


def _print_outcome(console: Console, outcome: Outcome) -> None:
    claim = outcome.claim
    console.print(Text(f"{claim.id}  {claim.title}", "bold"))
    verdict = claim.verdict + (f": {claim.right}" if claim.right else "")
    _print_wrapped(console, verdict, COLOURS[claim.verdict])
    console.print()
    _print_wrapped(console, claim.statement)
    console.print()
    for line in plain(claim.latex).splitlines():
        console.print(Text(f"      {line}", "bold"))
    console.print()
    if outcome.evidence is None:
        _print_wrapped(console, f"the demonstration failed: {outcome.error}", "red")
    else:
        _print_evidence(console, outcome.evidence)
    _print_wrapped(console, f"module {claim.module}, test {claim.test}", "dim")
    good = outcome.reproduced
    _print_wrapped(
        console,
        f"{'✓ reproduced' if good else '✗ not reproduced'} in {outcome.seconds:.1f} s",
        "green" if good else "red",
    )
    console.print()


def _print_evidence(console: Console, evidence: Evidence) -> None:
    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("measured", "predicted", "observed", ""):
        grid.add_column(name, justify="right" if name in ("predicted", "observed") else "left", overflow="fold")
    for measure in evidence.measures:
        mark = Text("✓ agrees", "green") if measure.agrees else Text("✗ does not agree", "bold red")
        grid.add_row(Text(measure.what), Text(measure.expectation), Text(shown(measure.observed)), mark)
    grid.add_row("", "", "", "")
    grid.add_row(Text("wrong on purpose", "bold"), "", "", "")
    for wrong in evidence.wrong:
        mark = Text("✓ rejected", "green") if wrong.rejected else Text("✗ not rejected", "bold red")
        grid.add_row(Text(wrong.what), Text(wrong.measure.expectation), Text(shown(wrong.measure.observed)), mark)
    _print_indented(console, grid)
    for table in evidence.tables:
        _print_table(console, table)
    for figure in evidence.figures:
        for line in text(figure).splitlines():
            console.print(Text(f"  {line}"), overflow="crop", no_wrap=True)
        console.print()
    for note in evidence.notes:
        _print_wrapped(console, note)
    if evidence.notes:
        console.print()


def _print_table(console: Console, table: Table) -> None:
    console.print(Text(f"  {table.title}", "bold"))
    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column, name in enumerate(table.header):
        is_text = any(isinstance(row[column], str) for row in table.rows)
        grid.add_column(Text(name), justify="left" if is_text else "right")
    for row in table.rows:
        grid.add_row(*(Text(shown(value)) for value in row))
    _print_indented(console, grid)


def _print_indented(console: Console, grid: Grid) -> None:
    from rich.padding import Padding

    console.print(Padding(grid, (0, 0, 1, 2)))


def _print_wrapped(console: Console, words: str, style: str = "") -> None:
    for line in textwrap.wrap(words, max(console.width - 2, 40)):
        console.print(Text(f"  {line}", style))


def _print_summary(console: Console, outcomes: Sequence[Outcome]) -> None:
    done = sum(outcome.reproduced for outcome in outcomes)
    seconds = sum(outcome.seconds for outcome in outcomes)
    verdicts = [outcome.claim.verdict for outcome in outcomes]
    counted = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in COLOURS if verdict in verdicts)
    style = "green" if done == len(outcomes) else "bold red"
    console.print(Text(f"\n{done} of {len(outcomes)} claims reproduced in {seconds:.0f} s: {counted}", style))
    missing = [outcome.claim.id for outcome in outcomes if not outcome.reproduced]
    if missing:
        console.print(Text(f"not reproduced: {', '.join(missing)}", "bold red"))
