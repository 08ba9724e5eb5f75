"""``clearhead train``: the words of the command; the work is in ``clearhead.cli.training``."""

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.files import data_settings, kept_inputs
from clearhead.cli.names import say_what_is_taken, stated_recipe
from clearhead.cli.words import columns_setting
from clearhead.locks import held

SIDES = {"train": "", "dev": "dev_", "test": "test_"}
"""What the options of parallel files begin with."""


def train(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            help="A file (- for a pipe) or a task (g2p-en, digits); a preset, recipe, model file, run or Hugging Face "
            "folder to take the recipe of; then section.key=value …"
        ),
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="The run folder.")] = Path("runs/latest"),
    train: Annotated[
        Path | None, typer.Option(help="Training data (.tsv, .csv, .txt, .jsonl, also .gz), or -.")
    ] = None,
    dev: Annotated[Path | None, typer.Option(help="Data to choose the best model by.")] = None,
    test: Annotated[Path | None, typer.Option(help="Data to look at only at the end.")] = None,
    src: Annotated[Path | None, typer.Option(help="Source lines, parallel to --tgt.")] = None,
    tgt: Annotated[Path | None, typer.Option(help="Target lines.")] = None,
    dev_src: Annotated[Path | None, typer.Option(help="Source lines of dev.")] = None,
    dev_tgt: Annotated[Path | None, typer.Option(help="Target lines of dev.")] = None,
    test_src: Annotated[Path | None, typer.Option(help="Source lines of test.")] = None,
    test_tgt: Annotated[Path | None, typer.Option(help="Target lines of test.")] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Columns of the files: names of a header or JSON fields, or numbers: 1,3."),
    ] = None,
    minutes: Annotated[float | None, typer.Option(help="Budget in minutes; 10 without any budget.")] = None,
    max_steps: Annotated[int | None, typer.Option(help="Budget in steps.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Budget in passes over the data.")] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue the run in the folder; with --max-steps, extend a finished one."),
    ] = False,
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

    JSONL files have the fields source and target, or text, or label and text; CSV and TSV may have such names in a
    header. Other columns are named: clearhead train table.csv --columns english,german

    A model file, run or Hugging Face folder gives its recipe, not its weights. What comes through a pipe is kept in the
    run folder; its first line says whether it is JSONL, CSV, pairs or text:

    zcat pairs.tsv.gz | clearhead train - -o runs/mine

    --resume continues a stopped run as if it had never stopped. Settings that contradict the run are refused by name,
    and nothing changes. A finished run is extended if --max-steps asks for more steps than it has: from there on the
    learning rate follows the schedule over all these steps:

    clearhead train -o runs/mine --resume

    clearhead train -o runs/mine --resume --max-steps 20000

    Only one process at a time may train in a folder.

    Several processes share every batch and end with one model, on one machine or on several with one run folder:

    torchrun --nproc-per-node 2 -m clearhead train pairs.tsv -o runs/mine
    """
    with held(output) if os.environ.get("RANK", "0") == "0" else nullcontext():
        files = {"train": train, "dev": dev, "test": test, "src": src, "tgt": tgt}
        files |= {"dev_src": dev_src, "dev_tgt": dev_tgt, "test_src": test_src, "test_tgt": test_tgt}
        words, files = kept_inputs(output, what or [], files, resume=resume)
        source, settings = data_settings(
            words,
            {part: files[part] for part in ("train", "dev", "test")},
            {part: (files[f"{option}src"], files[f"{option}tgt"]) for part, option in SIDES.items()},
        )
        budgets = {"minutes": minutes, "steps": max_steps, "epochs": epochs}
        typed = [f"training.{name}={budget}" for name, budget in budgets.items() if budget is not None]
        typed += columns_setting(columns)
        _train(source, [*settings, *typed], {*words, *typed}, output, resume=resume)


def _train(source: str | None, settings: list[str], typed: set[str], output: Path, *, resume: bool) -> None:
    """Read the recipe, and which of its settings were asked for: those that only follow from the data were not."""
    recipe, given = stated_recipe(source, *settings, anew=True)
    asked = {number for number, word in enumerate(settings) if word in typed or word.startswith("data.")}
    stated = {key: value for key, value in given.items() if value.source != "command line" or value.order in asked}
    say_what_is_taken(source)

    from clearhead.cli.training import train as run
    from clearhead.training import StatedRecipe

    run(StatedRecipe(recipe, stated), output, resume=resume)
