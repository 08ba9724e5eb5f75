"""``clearhead lecture --exercise`` and ``--break``: what a student tries out."""

import json
import textwrap

import typer

import clearhead


def list_exercises(*, as_json: bool) -> None:
    """All exercises by lecture."""
    every = clearhead.exercises()
    if as_json:
        names = ("id", "claim", "title", "task", "how")
        listed = [{name: getattr(one, name) for name in names} for one in every]
        print(json.dumps({"exercises": listed}, ensure_ascii=False))
        return
    for lecture, title in clearhead.LECTURES.items():
        typer.secho(f"{lecture}  {title}", bold=True)
        for one in every:
            if one.lecture == lecture:
                typer.echo(f"  {one.id}  {one.title}  ({one.claim})")
    typer.echo(f"\n{len(every)} exercises; next: clearhead lecture --exercise {every[0].id}")


def exercise(name: str, answers: list[str], *, as_json: bool) -> None:
    """The task, or whether an answer to it is right."""
    one = clearhead.find_exercise(name)
    if not answers:
        typer.secho(f"{one.id}  {one.title}  ({one.claim})", bold=True)
        typer.echo(textwrap.fill(one.task, 100, initial_indent="  ", subsequent_indent="  "))
        typer.echo(f"  The answer: {one.how}.")
        typer.echo(f"  clearhead lecture --exercise {one.id} {'answer.py' if one.takes_tensors else 'ANSWER'}")
        return
    if len(answers) > 1:
        raise typer.BadParameter("one answer at a time; write a formula in quotes")
    judgement = clearhead.check_exercise(one, answers[0])
    if as_json:
        print(json.dumps({"id": one.id, "right": judgement.right, "says": judgement.says}, ensure_ascii=False))
    else:
        typer.secho(str(judgement), fg="green" if judgement.right else "red")
    if not judgement.right:
        raise typer.Exit(1)


def break_it(name: str, ids: list[str], *, as_json: bool) -> None:
    """Break a part of the product and tell which claims notice."""
    if name == "list":
        _list_breaks(as_json=as_json)
        return

    def tell(outcome: "clearhead.Outcome") -> None:
        if not as_json and not outcome.reproduced:
            typer.secho(f"{outcome.claim.id:<6} notices: {outcome.claim.title}", fg="green")

    report = clearhead.break_product(name, ids, report=tell)
    if as_json:
        told = {"break": name, "target": report.broken.target, "noticed": report.noticed}
        print(json.dumps(told | {"ran": [outcome.claim.id for outcome in report.outcomes]}, ensure_ascii=False))
    else:
        typer.echo(f"{report.broken.what} ({report.broken.target})")
        typer.secho(str(report), bold=True)
    if not report.noticed:
        raise typer.Exit(1)


def _list_breaks(*, as_json: bool) -> None:
    every = clearhead.breaks()
    if as_json:
        listed = [{"name": one.name, "what": one.what, "target": one.target} for one in every]
        print(json.dumps({"breaks": listed}, ensure_ascii=False))
        return
    width = max(len(one.name) for one in every)
    for one in every:
        typer.echo(f"{one.name:<{width}}  {one.what}")
    typer.echo(f"\n{len(every)} ways to break it; next: clearhead lecture --break {every[0].name} L0 L1")
