"""``clearhead lecture``: the words of the command; the work is in ``clearhead.cli.lecturing``."""

from pathlib import Path
from typing import Annotated

import typer


def lecture(
    ids: Annotated[
        list[str] | None, typer.Argument(help="Claims such as L4.8, or a whole lecture, L4. Without any: the list.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Run every claim; ends with a summary.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: predicted, observed, reproduced.")] = False,
    html: Annotated[
        Path | None, typer.Option(help="Write one page with formulas, evidence and figures (all claims, or the ids).")
    ] = None,
    figures: Annotated[Path | None, typer.Option(help="Write the figures into this folder, as SVG.")] = None,
) -> None:
    """Run the claims of the lectures: what each one predicts beside what this machine observes.

    clearhead lecture                        lists them, with a verdict: holds, under a condition, a slip in the notes

    clearhead lecture L4.8                   states the claim, runs it, shows the evidence and a wrong variant rejected

    clearhead lecture --all --html page.html   all of them, as one page that needs no network

    Exits with 1 if a claim is not reproduced. In Python: clearhead.demonstrate("L4.8")
    """
    from clearhead.lectures import claims, find_claims

    if everything and ids:
        raise typer.BadParameter("--all runs every claim: give no ids with it")
    chosen = find_claims(ids or [])
    if not chosen and not everything and html is None and figures is None:
        from clearhead.cli.lectures import list_claims

        list_claims(claims(), as_json=as_json)
        return

    from clearhead.cli.lecturing import run_claims

    if not run_claims(chosen or claims(), in_full=bool(chosen), as_json=as_json, html=html, figures=figures):
        raise typer.Exit(1)
