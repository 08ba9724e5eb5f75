"""``clearhead lecture``: the claims of the lectures, listed or run."""

import json
import shutil
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

import clearhead
from clearhead.cli.exercises import break_it, list_exercises
from clearhead.cli.exercises import exercise as check_one

if TYPE_CHECKING:
    from collections.abc import Sequence

COLOURS = {
    "holds": "green",
    "holds under a condition": "yellow",
    "misprint": "magenta",
    "convention": "cyan",
    "disputed": "red",
}


def lecture(
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CLAIMS|WORDS]",
            help="Claims such as L4.8, a whole lecture, L4, or words to search for: softmax. Without any: the list.",
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Run every claim, or all that the words find.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: predicted, observed, reproduced.")] = False,
    html: Annotated[
        Path | None, typer.Option(help="Write one page with formulas, evidence and figures (all claims, or the ids).")
    ] = None,
    figures: Annotated[Path | None, typer.Option(help="Write the figures into this folder, as SVG.")] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve that page on 127.0.0.1 until Ctrl-C, to this machine only.")
    ] = False,
    port: Annotated[int, typer.Option(help="The port of --serve; 0 takes a free one.", min=0, max=65535)] = 8017,
    exercises: Annotated[bool, typer.Option("--exercises", help="List the exercises, five a lecture.")] = False,
    exercise: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Show an exercise, or check the answer that follows: a number, a formula, or your own Python file "
            "that defines `answer`. The file is run, in a process of its own with a time limit of 60 s.",
        ),
    ] = None,
    broken: Annotated[
        str | None,
        typer.Option(
            "--break", metavar="NAME", help="Break a part of clearhead and see which claims notice; or: list."
        ),
    ] = None,
) -> None:
    """Run the claims of the lectures: what each one predicts beside what this machine observes.

    clearhead lecture                        lists them, with a verdict: holds, under a condition, misprint, …

    clearhead lecture L4.8                   states the claim, runs it, shows the evidence and a wrong variant rejected

    clearhead lecture masked softmax         lists the claims with these words; with --all it runs them

    clearhead lecture --all --html page.html   all of them, as one page that needs no network

    clearhead lecture --exercise 2.3 answer.py   checks your answer, and says what is wrong with a wrong one

    clearhead lecture --break scale-by-d L0 L1   breaks clearhead on purpose; which claims notice?

    Exits with 1 if a claim is not reproduced, an answer is wrong, or nothing notices a break.
    In Python: clearhead.demonstrate("L4.8"), clearhead.check_exercise("1.3", 8), clearhead.break_product("no-mask")
    """
    if sum((exercises, exercise is not None, broken is not None, serve or html is not None or everything)) > 1:
        raise typer.BadParameter("--exercises, --exercise and --break stand alone")
    if exercises:
        list_exercises(as_json=as_json)
    elif exercise is not None:
        check_one(exercise, ids or [], as_json=as_json)
    elif broken is not None:
        break_it(broken, ids or [], as_json=as_json)
    else:
        _claims(
            ids or [], everything=everything, as_json=as_json, html=html, figures=figures, port=port if serve else None
        )


def _claims(
    ids: list[str], *, everything: bool, as_json: bool, html: Path | None, figures: Path | None, port: int | None
) -> None:
    """List or run claims."""
    names = {*clearhead.LECTURES, *(claim.id for claim in clearhead.claims())}
    searched = any(word.upper() not in names for word in ids)
    if everything and ids and not searched:
        raise typer.BadParameter("--all runs every claim: give no ids with it")
    chosen = clearhead.find_claims(ids)
    wants_list = len(chosen) > 1 if searched else not chosen
    if wants_list and not everything and html is None and figures is None and port is None:
        _list(chosen or clearhead.claims(), as_json=as_json)
        return
    in_full = bool(chosen) and not (searched and everything)
    outcomes = _run(chosen or clearhead.claims(), in_full=in_full, as_json=as_json, html=html)
    if as_json:
        print(json.dumps({"claims": [outcome.as_json() for outcome in outcomes]}, ensure_ascii=False))
    if html is not None:
        clearhead.save_lecture_page(outcomes, html)
    if figures is not None:
        for outcome in outcomes:
            outcome.save_figures(figures)
    if port is not None:
        _serve(outcomes, port)
    if not all(outcome.reproduced for outcome in outcomes):
        raise typer.Exit(1)


def _serve(outcomes: "Sequence[clearhead.Outcome]", port: int) -> None:
    """Serve the page until Ctrl-C."""
    clearhead.serve_lecture_page(
        outcomes, port=port, ready=lambda address: typer.echo(f"{address} (Ctrl-C ends)", err=True)
    )


def _list(claims: "Sequence[clearhead.Claim]", *, as_json: bool) -> None:
    """The claims by lecture, in the order of the notes, with what is right where they are not."""
    if as_json:
        print(json.dumps({"claims": [claim.as_json() for claim in claims]}, ensure_ascii=False))
        return
    width = max(shutil.get_terminal_size().columns, 50) if sys.stdout.isatty() else 10_000
    for lecture, title in clearhead.LECTURES.items():
        found = [claim for claim in claims if claim.lecture == lecture]
        if found:
            typer.secho(f"{lecture}  {title}", bold=True)
        for claim in found:
            typer.echo(f"  {claim.id:<6} {claim.title}", nl=False)
            typer.secho(f"  ({claim.place})" if claim.place.section else "", dim=True)
            verdict = claim.verdict + (f": {claim.right}" if claim.right else "")
            lines = textwrap.fill(verdict, width, initial_indent=" " * 9, subsequent_indent=" " * 9)
            typer.secho(lines, fg=COLOURS[claim.verdict])
    typer.echo(f"\n{len(claims)} claims; next: clearhead lecture {claims[-1].id}, clearhead lecture --all")


def _run(
    claims: "Sequence[clearhead.Claim]", *, in_full: bool, as_json: bool, html: Path | None
) -> "list[clearhead.Outcome]":
    """Demonstrate these claims, and print each as it is done."""
    if html is not None and not html.parent.is_dir():
        raise clearhead.ClearheadError(f"{html}: the folder {html.parent} does not exist")
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, 110)  # nobody sees where a line ends
    outcomes = []
    for claim in claims:
        outcomes.append(outcome := clearhead.demonstrate(claim))
        if not as_json:
            (_print_outcome if in_full else _print_line)(console, outcome)
    if len(outcomes) > 1 and not as_json:
        _print_summary(console, outcomes)
    return outcomes


def _print_line(console: Console, outcome: "clearhead.Outcome") -> None:
    line = Text(f"{outcome.claim.id:<6} ")
    line.append("✓ " if outcome.reproduced else "✗ ", "green" if outcome.reproduced else "bold red")
    line.append(outcome.claim.title)
    line.append(f"  {outcome.claim.verdict}", COLOURS[outcome.claim.verdict])
    line.append(f"  {outcome.seconds:.1f} s", "dim")
    console.print(line)
    if not outcome.reproduced:
        _print_failure(console, outcome)


def _print_failure(console: Console, outcome: "clearhead.Outcome") -> None:
    if outcome.evidence is None:
        console.print(Text(f"       the demonstration failed: {outcome.error}", "red"))
        return
    for measure in outcome.evidence.measures:
        if not measure.agrees:
            found = f"predicted {measure.expectation}, observed {measure.observation}"
            console.print(Text(f"       {measure.what}: {found}", "red"))
    for wrong in outcome.evidence.wrong:
        if not wrong.rejected:
            console.print(Text(f"       a wrong variant was not rejected: {wrong.what}", "red"))


def _print_outcome(console: Console, outcome: "clearhead.Outcome") -> None:
    claim = outcome.claim
    console.print(Text(f"{claim.id}  {claim.title}", "bold"))
    if claim.place.section:
        console.print(Text(f"  {claim.lecture}: {claim.place}", "dim"))
    verdict = claim.verdict + (f": {claim.right}" if claim.right else "")
    _print_wrapped(console, verdict, COLOURS[claim.verdict])
    console.print()
    _print_wrapped(console, claim.statement)
    console.print()
    if claim.printed:
        _print_formula(console, claim.printed_formula, "as printed")
    _print_formula(console, claim.formula, "what is right" if claim.printed else "")
    console.print()
    if outcome.evidence is None:
        _print_wrapped(console, f"the demonstration failed: {outcome.error}", "red")
    else:
        _print_evidence(console, outcome.evidence)
    if claim.try_it is not None:
        _print_wrapped(console, f"try it: {claim.try_it}")
    if claim.trained is not None:
        _print_wrapped(console, f"in a trained model (make demo): {claim.trained}")
    _print_wrapped(console, f"module {claim.module}, test {claim.test}", "dim")
    good = outcome.reproduced
    _print_wrapped(
        console,
        f"{'✓ reproduced' if good else '✗ not reproduced'} in {outcome.seconds:.1f} s",
        "green" if good else "red",
    )
    console.print()


def _print_formula(console: Console, formula: str, which: str) -> None:
    if which:
        console.print(Text(f"    {which}", "dim"))
    for line in formula.splitlines():
        console.print(Text(f"      {line}", "bold"))


def _print_evidence(console: Console, evidence: "clearhead.Evidence") -> None:
    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("measured", "predicted", "observed", ""):
        grid.add_column(name, justify="right" if name in ("predicted", "observed") else "left", overflow="fold")
    for measure in evidence.measures:
        mark = Text("✓ agrees", "green") if measure.agrees else Text("✗ does not agree", "bold red")
        grid.add_row(Text(measure.what), Text(measure.expectation), Text(measure.observation), mark)
    for title, variants in (
        ("wrong on purpose", [wrong for wrong in evidence.wrong if not wrong.broken]),
        ("broken on purpose", [wrong for wrong in evidence.wrong if wrong.broken]),
    ):
        if variants:
            grid.add_row("", "", "", "")
            grid.add_row(Text(title, "bold"), "", "", "")
        for wrong in variants:
            mark = Text("✓ rejected", "green") if wrong.rejected else Text("✗ not rejected", "bold red")
            grid.add_row(Text(wrong.what), Text(wrong.measure.expectation), Text(wrong.measure.observation), mark)
    _print_indented(console, grid)
    for table in evidence.tables:
        _print_table(console, table)
    for figure in evidence.drawn():
        for line in figure.splitlines():
            console.print(Text(f"  {line}"), overflow="crop", no_wrap=True)
        console.print()
    for note in evidence.notes:
        _print_wrapped(console, note)
    if evidence.notes:
        console.print()


def _print_table(console: Console, table: "clearhead.EvidenceTable") -> None:
    console.print(Text(f"  {table.title}", "bold"))
    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column, name in enumerate(table.header):
        is_text = any(isinstance(row[column], str) for row in table.rows)
        grid.add_column(Text(name), justify="left" if is_text else "right")
    for row in table.cells:
        grid.add_row(*map(Text, row))
    _print_indented(console, grid)


def _print_indented(console: Console, grid: Grid) -> None:
    console.print(Padding(grid, (0, 0, 1, 2)))


def _print_wrapped(console: Console, words: str, style: str = "") -> None:
    for line in textwrap.wrap(words, max(console.width - 2, 40)):
        console.print(Text(f"  {line}", style))


def _print_summary(console: Console, outcomes: "Sequence[clearhead.Outcome]") -> None:
    done = sum(outcome.reproduced for outcome in outcomes)
    seconds = sum(outcome.seconds for outcome in outcomes)
    verdicts = [outcome.claim.verdict for outcome in outcomes]
    counted = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in COLOURS if verdict in verdicts)
    style = "green" if done == len(outcomes) else "bold red"
    console.print(Text(f"\n{done} of {len(outcomes)} claims reproduced in {seconds:.0f} s: {counted}", style))
    missing = [outcome.claim.id for outcome in outcomes if not outcome.reproduced]
    if missing:
        console.print(Text(f"not reproduced: {', '.join(missing)}", "bold red"))
