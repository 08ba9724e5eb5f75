"""``clearhead run``: the words of the command; the work is in ``clearhead.cli.running``."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from clearhead.cli.words import check_model_and_data, files_and_settings, one_pipe
from clearhead.errors import Problem, RecipeError

MOST_WORKERS = 256
"""More processes than this serve no machine."""


def run(
    model: Annotated[str, typer.Argument(help="A model file, a run folder, or a Hugging Face folder.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE]...",
            help="Files of lines (.gz, .jsonl too), or - for standard input; then decoding.key=value …",
        ),
    ] = None,
    beam_size: Annotated[int | None, typer.Option(help="Beams of the search; 1 is greedy and fastest.")] = None,
    n_best: Annotated[int, typer.Option(min=1, help="Answers to each line: `line ||| answer ||| score`.")] = 1,
    scores: Annotated[bool, typer.Option("--scores", help="Add log p of each answer, behind a tab.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object a line; fields of JSONL input stay.")] = False,
    read_as: Annotated[
        Literal["auto", "text", "jsonl"],
        typer.Option("--from", help='What the lines are; jsonl has a "source"; auto: jsonl for files of that name.'),
    ] = "auto",
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write the answers to this file, which appears when it is complete."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a file of answers that was interrupted.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the file of answers if it exists.")] = False,
    threads: Annotated[
        int | None, typer.Option(min=1, max=MOST_WORKERS, help="Workers side by side; all cores without it.")
    ] = None,
) -> None:
    """Answer lines: one line out for every line in, in the same order, also for empty ones.

    A pipe is answered line by line, a file in bulk. A line does not depend on the others. Lines of more than
    decoding.max_source tokens are cut there, and a warning says so. A beam ranks its answers by log p / ((5+|y|)/6)^α,
    α = decoding.length_penalty.

    With -o, the answers stand in FILE.partial until all are there. If the command is interrupted, the same command with
    --resume answers the rest.

    clearhead run runs/demo words.txt > answers.txt

    clearhead run runs/demo words.txt -o answers.txt --resume

    echo clearhead | clearhead run runs/demo --n-best 3

    clearhead run runs/demo words.txt decoding.sample=true decoding.seed=7
    """
    if output is None and (resume or force):
        what = "--resume" if resume else "--force"
        raise RecipeError([Problem("command line", what, "is about the file of answers: name it with -o")])
    files, settings = files_and_settings(words)
    one_pipe({f"file {number}": file for number, file in enumerate(files, start=1)})
    check_model_and_data(model, files)
    if beam_size is not None:
        settings.append(f"decoding.beam_size={beam_size}")
    elif n_best > 1:
        settings.insert(0, f"decoding.beam_size={max(4, n_best)}")

    from clearhead.cli.running import AnswerFile, run_model
    from clearhead.predictor import AnswerFormat

    run_model(
        model,
        files,
        settings,
        AnswerFormat(n_best, scores, as_json),
        read_as=read_as,
        output=AnswerFile(output, resume, force),
        threads=threads,
    )
