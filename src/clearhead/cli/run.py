"""``clearhead run``: lines in, answers out."""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import clearhead
from clearhead.cli.progress import TerminalReport
from clearhead.cli.words import Device, Engine, Int8, Others, all_together, files_and_settings, one_pipe, usage

MOST_WORKERS = 256
"""More processes than this serve no machine."""


def run(
    model: Annotated[
        str,
        typer.Argument(help="A model file, a run folder, a Hugging Face folder, or g2p-en, which comes along."),
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE]...",
            help="Files of lines (.gz, .jsonl too), 'in/*.txt', or - for standard input; then decoding.key=value …",
        ),
    ] = None,
    beam_size: Annotated[int | None, typer.Option(help="Beams of the search; 1 is greedy and fastest.")] = None,
    dictionary: Annotated[
        bool, typer.Option("--dictionary", help="For g2p-en: words that the CMU dictionary lists are answered by it.")
    ] = False,
    n_best: Annotated[int, typer.Option(min=1, help="Answers to each line: `line ||| answer ||| score`.")] = 1,
    scores: Annotated[bool, typer.Option("--scores", help="Add log p of each answer, after a tab.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object a line; fields of JSONL input stay.")] = False,
    vectors: Annotated[
        bool,
        typer.Option("--vectors", help="A vector for each line instead of an answer, as JSON; with -o also .npy."),
    ] = False,
    read_as: Annotated[
        Literal["auto", "text", "jsonl"],
        typer.Option("--from", help='What the lines are; jsonl has a "source"; auto: jsonl for files of that name.'),
    ] = "auto",
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            help="Write the answers to this file, which appears when it is complete; a folder, out/, gets a file of "
            "answers for each file of lines.",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue answers with -o that were interrupted; keep finished files.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files of answers that exist.")] = False,
    on: Annotated[
        Literal["local", "ray"],
        typer.Option(help="Where a folder of answers is worked on: processes here, or a Ray cluster (RAY_ADDRESS)."),
    ] = "local",
    threads: Annotated[
        int | None,
        typer.Option(min=1, max=MOST_WORKERS, help="Workers side by side; all cores without it. On a GPU, 1."),
    ] = None,
    others: Others = None,
    engine: Engine = "native",
    int8: Int8 = False,
    device: Device = "auto",
) -> None:
    """Answer lines: one line out for every line in, in the same order, also for empty ones.

    A pipe is answered line by line, a file in bulk. A line does not depend on the others. Lines of more than
    decoding.max_source tokens are cut there, and a warning says so. A beam ranks its answers by log p / ((5+|y|)/6)^α,
    α = decoding.length_penalty.

    --vectors gives a vector for each line, for similarity and search, of any model with an encoder: the mean of its
    output over the tokens. decoding.pooling=cls takes the first token's, decoding.normalize=true scales to length 1;
    folders of sentence-transformers say both themselves.

    With -o, the answers stand in FILE.partial until all are there. If the command is interrupted, the same command with
    --resume answers the rest.

    With a folder, -o out/, each file of lines gets a file of answers of the same name there, which appears when it is
    complete. --resume keeps those that are finished, if input, model and settings are the same. A worker that is killed
    costs time, and no line. --on ray works in the same way on a Ray cluster whose machines share these folders.

    --with names another model, which answers together with the first: at each token the mean of their probabilities
    decides. Two runs on the same data with other seeds err in different places.

    echo 'Transformers, pronounced!' | clearhead run g2p-en

    clearhead run runs/demo words.txt > answers.txt

    clearhead run runs/demo words.txt -o answers.txt --resume

    clearhead run runs/demo 'in/*.jsonl' -o out/ --resume

    echo clearhead | clearhead run runs/demo --n-best 3

    clearhead run runs/demo words.txt decoding.sample=true decoding.seed=7

    clearhead run encoder.safetensors lines.txt --vectors -o lines.npy

    clearhead run runs/demo words.txt --engine ctranslate2

    clearhead run runs/one words.txt --with runs/two
    """
    if output is None and (resume or force):
        raise usage("--resume" if resume else "--force", "is about the file of answers: name it with -o")
    if output == "":
        raise usage("-o", "names no file and no folder")
    folder = output is not None and (output.endswith("/") or Path(output).is_dir())
    if on == "ray" and not folder:
        raise usage("--on ray", "works file by file: name the folder of answers with -o out/")
    files, settings = files_and_settings(words)
    one_pipe({f"file {number}": file for number, file in enumerate(files, start=1)})
    if beam_size is not None:
        settings.append(f"decoding.beam_size={beam_size}")
    if dictionary:
        settings.append("decoding.dictionary=true")
    if vectors:
        _vectors(
            model,
            files,
            None if output is None else Path(output),
            force=force,
            read_as=read_as,
            device=device,
            settings=settings,
            refused={
                "--n-best": n_best > 1,
                "--scores": scores,
                "--resume": resume,
                "--beam-size": beam_size is not None,
                "--dictionary": dictionary,
                "--engine": engine != "native",
                "--int8": int8,
                "--with": bool(others),
                "-o with a folder": folder,
            },
        )
        return
    form: dict[str, Any] = {"n_best": n_best, "scores": scores, "as_json": as_json, "read_as": read_as}
    if others and on == "ray":
        raise usage("--with and --on ray", "several models answer on this machine: leave out one of the two")
    answering, computing = all_together(model, others, engine=engine, int8=int8, device=device)
    form |= {"workers": threads or "all", "settings": settings} | computing
    if output is not None:
        form |= {"resume": resume, "force": force}
        with TerminalReport(bar=True) as report:
            if folder:
                clearhead.answer_shards(answering, files, output, on=on, report=report, **form)
            else:
                clearhead.answer_file(answering, files, output, report=report, **form)
        return
    # a bar on the screen that shows the answers would be in their way
    with TerminalReport(bar=bool(files) and not sys.stdout.isatty()) as report:
        _print(clearhead.answer_lines(answering, files, report=report, **form), report)


def _vectors(
    model: str, files: list[str], output: Path | None, *, force: bool, refused: dict[str, bool], **form: Any
) -> None:
    for option, given in refused.items():
        if given:
            raise usage(option, "is about answers, and --vectors gives none")
    if output is not None:
        clearhead.vector_file(model, files, output, force=force, **form)
        return
    for row in clearhead.vector_lines(model, files, **form):
        print(row, flush=True)


def _print(answers: "clearhead.AnswerStream", report: TerminalReport) -> None:
    done = 0
    report(clearhead.Event("start", steps=answers.total))
    for part in answers:
        if part:
            print(*(row for answered in part for row in answered.rows), sep="\n", flush=True)
        done += len(part)
        report(clearhead.Event("lines", step=done, steps=answers.total))
        for answered in part:
            for category, message in answered.warnings:
                report(clearhead.Event("warning", message, category=category))
