"""``clearhead look``: inside a model while it answers one text."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import clearhead
from clearhead.cli.progress import TerminalReport
from clearhead.cli.words import Device, is_setting, usage

if TYPE_CHECKING:
    from clearhead import View

STYLES = {"title": "bold", "head": "bold", "row": "", "note": "dim"}


def look(
    model: Annotated[str, typer.Argument(help="A model file, a run folder, or a Hugging Face folder.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT",
            help="The text to answer; - reads it from standard input. With --align: a file of lines. Then "
            "decoding.key=value …",
        ),
    ] = None,
    target: Annotated[str | None, typer.Option(help="Look at this answer instead of the model's own.")] = None,
    at: Annotated[
        int | None, typer.Option(metavar="N", help="Only token N of the answer, counted from 1; -1 is the last.")
    ] = None,
    against: Annotated[
        str | None, typer.Option(metavar="TOKEN", help="With --at: why that token, and not this one.")
    ] = None,
    show: Annotated[
        str | None,
        typer.Option(
            metavar="KINDS",
            help="What to show, with commas: attention, norms, rollout, lens, parts, inputs, occlusion. Without it all "
            "but the last two, which take a while.",
        ),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="HEAD", help="Switch off a head, such as cross.2.5; may be given several times."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="Write a page (.html), a figure (.svg), everything (.json) or the numbers (.npz)."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    align: Annotated[
        bool, typer.Option("--align", help="Print which source token each answer token comes from, a line each.")
    ] = False,
    gold: Annotated[
        Path | None, typer.Option(help="With --align: right alignments, to print the error (AER) of ours.")
    ] = None,
    head: Annotated[
        str | None, typer.Option(metavar="HEAD", help="With --align: read this head; without it the mean of all.")
    ] = None,
    heads: Annotated[
        bool,
        typer.Option(
            "--heads", help="Study all heads over a file: importance with 95 % intervals, role; -o .html or .json."
        ),
    ] = False,
    metric: Annotated[
        str | None, typer.Option(help="With --heads: also the change of a metric, such as line_error; takes longer.")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --heads: keeps what is done; the same command continues from it."),
    ] = None,
    shift: Annotated[
        int | None,
        typer.Option(
            min=0, max=1, help="With --align: 1 reads a token at the step after it (default), 0 at its own step."
        ),
    ] = None,
    device: Device = "auto",
) -> None:
    """Look inside a model: the answer with its alternatives, where each token comes from, and the reasons for it.

    clearhead look runs/demo lovely                       # in the terminal

    clearhead look runs/demo lovely -o look.html          # one page, no network

    clearhead look runs/demo lovely --at 2 --against EH   # why AH, and not EH?

    clearhead look runs/demo lovely --target "L AH V"     # of another answer

    clearhead look runs/demo lovely --without cross.2.5   # with a head off

    clearhead look runs/demo lovely --at 2 --show inputs  # integrated gradients

    clearhead look runs/demo pairs.tsv --align --gold right.txt

    clearhead look runs/demo dev.tsv --heads -o heads.html  # over a corpus

    Each token comes with its probability, what else was likely, the tokens that it takes most from (by the norms
    ‖α v W‖, which say more than attention weights), and the strongest of the parts that add up to its logit: heads
    such as cross.2.1 (stack, layer, head), feed-forward nets, embeddings, biases.

    In Python: clearhead.look("runs/demo", "lovely")
    """
    text, settings = _text_and_settings(words or [])
    single = {"target": target, "at": at, "against": against, "show": show, "without": without or None}
    how: dict[str, Any] = {"device": device, "settings": settings}
    if heads:
        _refuse("--heads", **single, align=align or None, gold=gold, head=head, shift=shift)
        _study(model, text, output, {"metric": metric, "resume": resume, **how}, as_json)
        return
    if align:
        _refuse("--align", **single, output=output, metric=metric, resume=resume)
        _align(model, text, gold, {"head": head, "shift": 1 if shift is None else shift, **how}, as_json)
        return
    _refuse("one text, but for --align", gold=gold, head=head, shift=shift)
    _refuse("one text, but for --heads", metric=metric, resume=resume)
    place = _place(at, against)
    if output is not None and as_json:
        raise usage("--json and -o", "choose one: -o look.json writes the same to a file")
    kinds = None if show is None else [name.strip() for name in show.split(",")]
    loaded = clearhead.load(model, *settings, device=device)
    if text == "-":
        text = sys.stdin.readline().rstrip("\r\n")
    view = clearhead.look(loaded, text, target, without=without or ()).named(model)
    count = len(view.answer)
    if place is not None and not -count <= place < count:
        raise usage(f"--at {at}", f"the answer has {count} tokens, counted from 1")
    chosen: dict[str, Any] = {"show": kinds, "at": place, "against": against}
    if output is not None:
        view.save(output, **chosen)
    elif as_json:
        print(json.dumps(view.document(**chosen), ensure_ascii=False, allow_nan=False))
    else:
        _print(view, chosen)
        if without:
            _print_with_all(clearhead.look(loaded, text, target))


def _text_and_settings(words: Sequence[str]) -> tuple[str, list[str]]:
    """The first word is the text, whatever it looks like; the others are settings."""
    if not words:
        raise usage("look", "give a text to answer, or - to read it from standard input")
    for word in words[1:]:
        if not is_setting(word):
            raise usage(word, "is one word too many: put quotes around a text of several words")
    return words[0], list(words[1:])


def _place(at: int | None, against: str | None) -> int | None:
    """A place in the answer as Python counts it, from 0."""
    if at == 0:
        raise usage("--at 0", "tokens are counted from 1; -1 is the last")
    if against is not None and at is None:
        raise usage("--against", "say for which token of the answer: --at N")
    return None if at is None else at - (at > 0)


def _refuse(mode: str, **given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise usage(f"--{name}", f"is not for {mode}")


def _study(model: str, file: str, output: Path | None, how: dict[str, Any], as_json: bool) -> None:
    """Importance and role of every head over a file of examples."""
    if output is not None and output.suffix not in (".html", ".json"):
        raise usage(f"-o {output}", "a study of heads is saved as .html or .json")
    if output is not None and not output.parent.is_dir():
        raise clearhead.ClearheadError(f"{output}: the folder {output.parent} does not exist")
    with TerminalReport(bar=True) as report:
        study = clearhead.study_heads(model, file, report=report, **how)
    if output is not None:
        study.save(output)
    else:
        print(json.dumps(study.as_dict(), ensure_ascii=False) if as_json else study)


def _print(view: "View", chosen: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    width = max(40, console.width) if console.is_terminal else 80
    for line, role in view.lines(width, **chosen):
        console.print(Text(line, style=STYLES[role]), soft_wrap=True)  # lines are set for this width already


def _print_with_all(view: "View") -> None:
    """What the model answers when no head is off."""
    known = sum(value for value in view.log_probabilities if value is not None)
    print(f"\nwith all heads: {view.answer_text}  log p {known:.4f}".replace("p -", "p −"))


def _align(model: str, file: str, gold: Path | None, how: dict[str, Any], as_json: bool) -> None:
    """Pharaoh lines to standard output; with gold, the error after them."""
    found = clearhead.align(model, file, scored=gold is not None, **how)
    with TerminalReport(bar=not sys.stdout.isatty()) as report:
        report(clearhead.Event("start", steps=len(found)))
        for number, links in enumerate(found, start=1):
            line = clearhead.pharaoh(links)
            print(json.dumps({"alignment": links}) if as_json else line, flush=True)
            report(clearhead.Event("lines", step=number, steps=len(found)))
    if gold is not None:
        scores = found.scores(gold)
        for name, one in (("chosen", scores.chosen), ("best on these lines", scores.best)):
            of = one.head or "mean of all heads"
            if as_json:
                print(json.dumps({name.split()[0]: {"head": one.head, "shift": one.shift, "aer": one.error}}))
            else:
                print(f"AER {100 * one.error:.2f}  {name}: {of}, shift {one.shift}", file=sys.stderr)
