"""``clearhead train``: the words of the command; the work is in ``clearhead.cli.training``."""

from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.files import data_settings, kept_input


def train(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            help="A recipe, a preset, a file (- for a pipe), or a task (g2p-en, digits); then section.key=value …"
        ),
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="The run folder.")] = Path("runs/latest"),
    train: Annotated[Path | None, typer.Option(help="Training data (.tsv, .txt, .jsonl, also .gz), or -.")] = None,
    dev: Annotated[Path | None, typer.Option(help="Data to choose the best model by.")] = None,
    test: Annotated[Path | None, typer.Option(help="Data to look at only at the end.")] = None,
    src: Annotated[Path | None, typer.Option(help="Source lines, parallel to --tgt.")] = None,
    tgt: Annotated[Path | None, typer.Option(help="Target lines.")] = None,
    dev_src: Annotated[Path | None, typer.Option(help="Source lines of dev.")] = None,
    dev_tgt: Annotated[Path | None, typer.Option(help="Target lines of dev.")] = None,
    test_src: Annotated[Path | None, typer.Option(help="Source lines of test.")] = None,
    test_tgt: Annotated[Path | None, typer.Option(help="Target lines of test.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Budget in minutes; 10 without any budget.")] = None,
    max_steps: Annotated[int | None, typer.Option(help="Budget in steps.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Budget in passes over the data.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the run in the folder stands.")] = False,
) -> None:
    """Train a model on your own data. Needs no recipe: tokens, sizes and budget have defaults that suit the data.

    Pairs, `source<TAB>target` or two parallel files, teach an encoder-decoder:

    clearhead train pairs.tsv -o runs/mine --minutes 30

    clearhead train --src train.en --tgt train.de --dev-src val.en --dev-tgt val.de -o runs/en-de

    clearhead train g2p-en model.layers=4 training.seed=2 -o runs/g2p

    Lines of text teach a language model, or an encoder to fill in hidden tokens; a .txt file without tabs means the
    former, if no recipe or model.family says otherwise:

    clearhead train corpus.txt -o runs/lm

    clearhead train corpus.txt -o runs/encoder model.family=encoder

    `label<TAB>text` lines teach a classifier:

    clearhead train labels.tsv -o runs/labels model.family=classifier

    With patches the text of a classifier is an image, as numbers between spaces; the task digits has such:

    clearhead train digits -o runs/digits --minutes 3

    JSONL files have the fields source and target, or text, or label and text. What comes through a pipe is kept in the
    run folder; its first line says whether it is JSONL, pairs or text:

    zcat pairs.tsv.gz | clearhead train - -o runs/mine

    Several processes share every batch and end with one model, on one machine or on several with one run folder:

    torchrun --nproc-per-node 2 -m clearhead train pairs.tsv -o runs/mine
    """
    from clearhead.recipe import read_recipe

    words = what or []
    if "-" in words or train == Path("-"):
        piped = kept_input(output)
        words = [str(piped) if word == "-" else word for word in words]
        train = piped if train == Path("-") else train
    source, settings = data_settings(
        words,
        {"train": train, "dev": dev, "test": test},
        {"train": (src, tgt), "dev": (dev_src, dev_tgt), "test": (test_src, test_tgt)},
    )
    for name, budget in (("minutes", minutes), ("steps", max_steps), ("epochs", epochs)):
        if budget is not None:
            settings.append(f"training.{name}={budget}")
    recipe = read_recipe(source, *settings)

    from clearhead.cli.training import train as run

    run(recipe, output, resume=resume)
