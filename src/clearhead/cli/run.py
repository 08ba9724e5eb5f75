"""``clearhead run``: the words of the command; the work is in ``clearhead.cli.running``."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from clearhead.cli.words import files_and_settings


def run(
    model: Annotated[Path, typer.Argument(help="A model file, or a run folder.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE]...",
            help="Files of lines (.gz, .jsonl too), or standard input; then decoding.key=value …",
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
    threads: Annotated[int | None, typer.Option(min=1, help="Workers side by side; all cores without it.")] = None,
) -> None:
    """Answer lines: one line out for every line in, in the same order, also for empty ones.

    A pipe is answered line by line, a file in bulk. A line does not depend on the others. Lines of more than
    decoding.max_source tokens are cut there, and a warning says so. A beam ranks its answers by log p / ((5+|y|)/6)^α,
    α = decoding.length_penalty.

    clearhead run runs/demo words.txt > answers.txt

    echo "c l e a r h e a d" | clearhead run runs/demo --n-best 3

    clearhead run runs/demo words.txt decoding.sample=true decoding.seed=7
    """
    from clearhead.cli.running import Wish, run_model

    files, settings = files_and_settings(words)
    if beam_size is not None:
        settings.append(f"decoding.beam_size={beam_size}")
    elif n_best > 1:
        settings.insert(0, f"decoding.beam_size={max(4, n_best)}")
    run_model(model, files, settings, Wish(n_best, scores, as_json, read_as), threads)
