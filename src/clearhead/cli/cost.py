"""``clearhead cost``: what a model costs, before it is built. Only --table needs torch, to measure."""

import json
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import clearhead
from clearhead.cli.words import is_setting, usage

if TYPE_CHECKING:
    from clearhead import CostReport


class By(StrEnum):
    """How fine the answer is."""

    block = "block"
    layer = "layer"
    model = "model"


class CostView(StrEnum):
    """How formulas are shown."""

    exact = "exact"
    printed = "printed"
    asymptotic = "asymptotic"


class Sharing(StrEnum):
    """How devices share a model."""

    ddp = "ddp"
    fsdp = "fsdp"


class What(StrEnum):
    """What a crossover compares."""

    work = "work"
    memory = "memory"
    span = "span"


STYLES = {"title": "bold", "head": "bold", "row": "", "note": "dim"}


def cost(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RECIPE [KEY=VALUE …] [RECIPE …]",
            help="A preset, recipe, model file, run or Hugging Face folder, and changes to it: section.key=value. Two "
            "of them for --crossover.",
        ),
    ] = None,
    n: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Source tokens, or the tokens of a model with one sequence; without it 512, or as many as learned "
            "positions hold.",
        ),
    ] = None,
    m: Annotated[int | None, typer.Option(min=1, help="Target tokens; without it as many as n.")] = None,
    t: Annotated[int | None, typer.Option(min=1, help="Tokens so far, for a step of decoding; without it m.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Sequences in a batch, B.")] = 1,
    devices: Annotated[
        int | None,
        typer.Option(min=1, help="Train on so many devices: bytes that each sends in a step, and memory of each."),
    ] = None,
    parallel: Annotated[
        Sharing | None,
        typer.Option(
            help="With --devices: each has the whole model (ddp), or a part of it (fsdp).", show_default="ddp"
        ),
    ] = None,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Print every number with its formula and convention, and every block."),
    ] = False,
    by: Annotated[
        By | None,
        typer.Option(help="How fine: every block, layers, or the model alone. Implies --all.", show_default="block"),
    ] = None,
    view: Annotated[
        CostView | None,
        typer.Option(
            help="Formulas exact, as the lectures print them, or how they grow, O(…). Implies --all.",
            show_default="exact",
        ),
    ] = None,
    within: Annotated[
        str | None, typer.Option("--in", metavar="LETTER", help="With --view asymptotic: what grows, such as n.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON: numbers and formulas.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print everything as LaTeX tables.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print everything as Markdown tables.")] = False,
    crossover: Annotated[
        str | None,
        typer.Option(
            metavar="LETTER",
            help="The length (n or m) at which the second recipe beats the first; with one recipe, at which its n² "
            "terms overtake the rest of a layer.",
        ),
    ] = None,
    of: Annotated[What, typer.Option("--of", help="What --crossover compares.")] = What.work,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="With --crossover: draw both curves (.svg, .png, .pdf).")
    ] = None,
    table: Annotated[
        str | None, typer.Option(metavar="NAME", help="`lectures`: what the lectures print, beside what is measured.")
    ] = None,
) -> None:
    """Tell what a model costs, in symbols and in numbers: parameters, work, memory, span, and the share of each part.

    clearhead cost transformer-base --n 100 --m 80 --batch 8

    clearhead cost bert-base model.layers=11 --json

    clearhead cost transformer-big training.precision=bfloat16 --devices 8 --parallel fsdp

    clearhead cost bert-base bert-base model.attention.kind=linformer --crossover n -o crossover.svg

    One screen; --all, --by and --view print every number, formula and block. Nothing is built: the closed forms answer
    at once, and tests hold them against the graphs that torch traces. Work is counted in multiply-accumulates (MACs;
    FLOPs are twice as many); lg is ⌈log₂⌉.
    """
    import gc

    gc.disable()  # an answer is short: looking for garbage would cost a tenth of it
    form = _form(json=as_json, latex=latex, markdown=markdown)
    if table is not None:
        if table != "lectures":
            raise usage(f"--table {table}", "there is one table: lectures")
        if what:
            raise usage(what[0], "--table stands alone")
        tables = clearhead.lecture_tables()
        _print(form, lambda: tables, tables.json)
        return
    models = _models(what or [])
    if crossover is not None:
        costs = [clearhead.cost(source, *changes) for source, changes in models]
        found = clearhead.crossover(*costs, over=crossover, of=of.value, m=m, batch=batch)
        if output is not None:
            found.save(output)
        _print(form, found.report, found.json)
        return
    if output is not None:
        raise usage("-o", "is for --crossover: it names the file that the curves are drawn into")
    if len(models) > 1:
        raise usage(str(models[1][0]), "a second recipe needs --crossover n: one recipe at a time otherwise")
    ((source, changes),) = models
    model = clearhead.cost(source, *changes)
    lengths: dict[str, Any] = {"n": n, "m": m, "t": t, "batch": batch}
    if parallel is not None and devices is None:
        raise usage("--parallel", "say on how many: --devices 8")
    if devices is not None:
        if everything or by or view or within or t is not None:
            raise usage("--devices", "shows one table: leave out --all, --by, --view, --in and --t")
        shared: dict[str, Any] = {"kind": (parallel or Sharing.ddp).value, "n": n, "m": m, "batch": batch}
        _print(form, lambda: model.sharing(devices, **shared), lambda: model.sharing_json(devices, **shared))
        return
    if form == "text" and not (everything or by or view or within):
        _print(form, lambda: model.summary(**lengths), dict, hint="--all: every number, formula and block")
        return
    detail = {**lengths, "by": (by or By.block).value, "view": (view or CostView.exact).value, "within": within}
    _print(form, lambda: model.table(**detail), lambda: model.json(**detail))


def _models(words: list[str]) -> list[tuple[str | None, list[str]]]:
    """Recipes, each with the changes that follow it; changes alone change the defaults."""
    models: list[tuple[str | None, list[str]]] = []
    for word in words:
        if not is_setting(word):
            models.append((word, []))
        else:
            models = models or [(None, [])]
            models[-1][1].append(word)
    if not models:
        raise usage("", "name a preset or a recipe file: clearhead cost transformer-base")
    if len(models) > 2:
        raise usage(str(models[2][0]), "more than two recipes: changes to a recipe read section.key=value")
    return models


def _form(**asked: bool) -> str:
    wanted = [name for name, given in asked.items() if given]
    if len(wanted) > 1:
        raise usage(f"--{wanted[0]} and --{wanted[1]}", "choose one")
    return wanted[0] if wanted else "text"


def _print(form: str, report: "Callable[[], CostReport]", data: Callable[[], Any], hint: str = "") -> None:
    if form == "json":
        print(json.dumps(data(), ensure_ascii=False))
    elif form != "text":
        print(report().markdown() if form == "markdown" else report().latex())
    else:
        from rich.console import Console
        from rich.text import Text

        console = Console(highlight=False)
        for text, role in [*report().lines(console.width), *([(hint, "note")] if hint else [])]:
            console.print(Text(text, style=STYLES[role]), soft_wrap=True)  # lines are set for this width already
