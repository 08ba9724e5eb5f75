"""``clearhead cost``: what a model costs, before it is built."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class By(StrEnum):
    """How fine the answer is."""

    block = "block"
    layer = "layer"
    model = "model"


class View(StrEnum):
    """How formulas are shown."""

    exact = "exact"
    printed = "printed"
    asymptotic = "asymptotic"


class What(StrEnum):
    """What a crossover compares."""

    work = "work"
    memory = "memory"
    span = "span"


def cost(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RECIPE [KEY=VALUE …] [RECIPE …]",
            help="A preset, recipe, model file, run or Hugging Face folder, and changes to it: section.key=value. Two "
            "of them for --crossover.",
        ),
    ] = None,
    n: Annotated[int, typer.Option(min=1, help="Source tokens, or the tokens of a model with one sequence.")] = 512,
    m: Annotated[int | None, typer.Option(min=1, help="Target tokens; without it as many as n.")] = None,
    t: Annotated[int | None, typer.Option(min=1, help="Tokens so far, for a step of decoding; without it m.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Sequences in a batch, B.")] = 1,
    by: Annotated[By, typer.Option(help="How fine: every block, layers, or the model alone.")] = By.block,
    view: Annotated[
        View, typer.Option(help="Formulas exact, as the lectures print them, or how they grow, O(…).")
    ] = View.exact,
    within: Annotated[
        str | None, typer.Option("--in", metavar="LETTER", help="With --view asymptotic: what grows, such as n.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print numbers and formulas as JSON.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print LaTeX tables.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown tables.")] = False,
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
    """Tell what a model costs, in symbols and in numbers: parameters, work, memory, span, path length.

    clearhead cost transformer-base --n 100 --m 80 --batch 8

    clearhead cost bert-base model.layers=11 --json

    clearhead cost bert-base bert-base model.attention.kind=linformer --crossover n -o crossover.svg

    Nothing is built: the closed forms answer at once, and tests hold them against the graphs that torch traces.
    Work is counted in multiply-accumulates (MACs; FLOPs are twice as many); lg is ⌈log₂⌉.
    """
    import gc

    gc.disable()  # an answer is short: looking for garbage would cost a tenth of it
    from clearhead.cli.costs import Asked, answer

    answer(
        Asked(
            what=what or [],
            n=n,
            m=m,
            t=t,
            batch=batch,
            by=by.value,
            view=view.value,
            within=within,
            format=_one_of(as_json=as_json, latex=latex, markdown=markdown),
            crossover=crossover,
            of=of.value,
            output=output,
            table=table,
        )
    )


def _one_of(*, as_json: bool, latex: bool, markdown: bool) -> str:
    asked = [name for name, wanted in (("json", as_json), ("latex", latex), ("markdown", markdown)) if wanted]
    if len(asked) > 1:
        raise typer.BadParameter(f"--{asked[0]} and --{asked[1]}: choose one")
    return asked[0] if asked else "text"
