"""``clearhead train``: a model from data, a recipe and a budget."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

import clearhead
from clearhead.cli.progress import TerminalReport
from clearhead.cli.scores import print_scores
from clearhead.cli.words import columns_of, files_and_settings, one_of, parallel


def train(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            help="A file (- for a pipe) or a task (g2p-en, dates, digits); a preset, recipe, model file, run or "
            "Hugging Face folder to take the recipe of; then section.key=value …"
        ),
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="The run folder.")] = Path("runs/latest"),
    train: Annotated[
        Path | None,
        typer.Option(
            help="Training data (.tsv, .csv, .txt, .jsonl, also .gz; .parquet, .arrow), 'shards/*.tsv', or -."
        ),
    ] = None,
    dev: Annotated[Path | None, typer.Option(help="Data to choose the best model by.")] = None,
    test: Annotated[Path | None, typer.Option(help="Data to look at only at the end.")] = None,
    more: Annotated[
        Path | None,
        typer.Option(help="More training data, never in dev or test, such as the answers of a model."),
    ] = None,
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
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="MODEL",
            help="Start from this trained model, not from scratch: a run, a model file, a Hugging Face folder.",
        ),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Budget in minutes, evaluations included; 10 without any budget.")
    ] = None,
    max_steps: Annotated[int | None, typer.Option(help="Budget in steps.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Budget in passes over the data.")] = None,
    device: Annotated[
        str | None, typer.Option(metavar="DEVICE", help="training.device: cpu, cuda, cuda:1, mps, or auto.")
    ] = None,
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

    A pattern names many files, Parquet and Arrow among them: clearhead train 'shards/*.parquet' -o runs/large

    --from tunes a trained model: its weights, tokenizers and the settings of its model are kept; new characters and
    labels are added. training.freeze leaves parts as they are, training.adapters=lora trains small matrices alone:

    clearhead train mine.tsv --from runs/g2p -o runs/tuned training.freeze=encoder

    clearhead train mine.tsv --from runs/g2p -o runs/lora training.adapters=lora training.adapters.rank=8

    clearhead train labels.tsv --from runs/encoder -o runs/labels model.family=classifier

    Without --from, a model file, run or Hugging Face folder gives its recipe, not its weights. What comes through a
    pipe is kept in the run folder; its first line says whether it is JSONL, CSV, pairs or text:

    zcat pairs.tsv.gz | clearhead train - -o runs/mine

    --more adds training data that dev and test have no part in. What a trained model answers to lines that nobody has
    labelled may teach another, or itself; what dev or test ask for is left out:

    clearhead run runs/g2p names.txt --json -o answered.jsonl

    clearhead train pairs.tsv --more answered.jsonl --from runs/g2p -o runs/taught

    --resume continues a stopped run as if it had never stopped. Settings that contradict the run are refused by name,
    and nothing changes. A finished run is extended if --max-steps asks for more steps than it has: from there on the
    learning rate follows the schedule over all these steps:

    clearhead train -o runs/mine --resume

    clearhead train -o runs/mine --resume --max-steps 20000

    Only one process at a time may train in a folder.

    Several processes share every batch and end with one model, on one machine or on several with one run folder:

    torchrun --nproc-per-node 2 -m clearhead train pairs.tsv -o runs/mine

    torchrun --nproc-per-node 2 --max-restarts 3 -m clearhead train -o runs/mine --resume training.parallel=fsdp
    """
    names, settings = files_and_settings(what)
    if device is not None:
        settings.append(f"training.device={device}")
    recipe, data = clearhead.recipe_and_data(names)
    trained = {"DATA": data, "--train": train, "--src, --tgt": parallel(src, tgt)}
    tuned = {"--dev": dev, "--dev-src, --dev-tgt": parallel(dev_src, dev_tgt, "--dev-")}
    tested = {"--test": test, "--test-src, --test-tgt": parallel(test_src, test_tgt, "--test-")}
    for options, kind in ((trained, "training data"), (tuned, "dev"), (tested, "test")):
        one_of(options, kind)
    with TerminalReport() as report:
        run = clearhead.train(
            _given(trained),
            output,
            dev=_given(tuned),
            test=_given(tested),
            more=more,
            columns=columns_of(columns),
            recipe=recipe,
            start=start,
            minutes=minutes,
            steps=max_steps,
            epochs=epochs,
            resume=resume,
            report=report,
            settings=settings,
        )
        if os.environ.get("RANK", "0") == "0":
            _conclude(run, report)


def _given(options: Mapping[str, Any]) -> Any:
    """What one of these options names, if one does."""
    return next((value for value in options.values() if value is not None), None)


def _conclude(run: "clearhead.Run", report: TerminalReport) -> None:
    """Print what the best model does on test, some of its answers, and what can be done with it."""
    scores = run.scores
    if "test" in scores:
        report(clearhead.Event("note", "on the test data:"))
        print_scores(scores["test"])
        for example in run.examples():
            should = "" if example.answer in example.right else f"   (should be {' or '.join(example.right)})"
            print(f"  {example.question} → {example.answer}{should}")
    folder = run.folder
    next_commands = f"clearhead run {folder} FILE, clearhead look {folder} TEXT, clearhead eval {folder} FILE"
    report(clearhead.Event("note", f"next: {next_commands}"))
    report(clearhead.Event("note", f"in a browser: clearhead serve {folder}, then open http://127.0.0.1:8000/"))
