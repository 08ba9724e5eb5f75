"""Listing the claims of the lectures, without torch."""

import json
import shutil
import sys
import textwrap
from collections.abc import Sequence

import typer

from clearhead.lectures import LECTURES, Claim

COLOURS = {"holds": "green", "holds under a condition": "yellow", "slip in the notes": "magenta"}


def list_claims(claims: Sequence[Claim], *, as_json: bool) -> None:
    """The claims by lecture, a line each, with what is right where the notes slip."""
    if as_json:
        names = ("id", "title", "verdict", "right", "module", "test")
        print(
            json.dumps(
                {"claims": [{name: getattr(claim, name) for name in names} for claim in claims]}, ensure_ascii=False
            )
        )
        return
    width = max(shutil.get_terminal_size().columns, 50) if sys.stdout.isatty() else 10_000
    for lecture, title in LECTURES.items():
        typer.secho(f"{lecture}  {title}", bold=True)
        for claim in claims:
            if claim.lecture == lecture:
                typer.echo(f"  {claim.id:<6} {claim.title}")
                verdict = claim.verdict + (f": {claim.right}" if claim.right else "")
                lines = textwrap.fill(verdict, width, initial_indent=" " * 9, subsequent_indent=" " * 9)
                typer.secho(lines, fg=COLOURS[claim.verdict])
    typer.echo(f"\n{len(claims)} claims; next: clearhead lecture {claims[-1].id}, clearhead lecture --all")
