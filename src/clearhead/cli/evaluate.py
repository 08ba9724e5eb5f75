"""``clearhead eval``: how good a model is."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import clearhead
from clearhead.cli.progress import TerminalReport
from clearhead.cli.scores import print_scores, score_lines
from clearhead.cli.words import (
    Device,
    Engine,
    Int8,
    Others,
    all_together,
    columns_of,
    files_and_settings,
    parallel,
    usage,
)


def evaluate(
    model: Annotated[str, typer.Argument(help="A model file, a run folder, or a Hugging Face folder.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DATA]", help="A file such as the model was trained on (also .gz), or -; then decoding.key=value …"
        ),
    ] = None,
    src: Annotated[Path | None, typer.Option(help="Source lines, parallel to --tgt.")] = None,
    tgt: Annotated[Path | None, typer.Option(help="Target lines.")] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Columns of the file: names of its header or JSON fields, or numbers: 1,3."),
    ] = None,
    split: Annotated[
        Literal["dev", "test"] | None, typer.Option(help="For a run folder: its own dev or test data.")
    ] = None,
    others: Others = None,
    engine: Engine = "native",
    int8: Int8 = False,
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON.")] = False,
) -> None:
    """Score a model's answers, with 95 % intervals; percentages. The screen shows what matters for the data.

    Answers of symbols or characters: line_error and symbol_error; of sentences: BLEU and chrF; --json has all, and TER.
    line_error is the share of sources whose answer equals none of their references; symbol_error is the edit distance
    to the closest reference over its length. Several pairs with one source are several references.

    A language model is scored on lines of text: perplexity by token, the end of each line among them, and the share of
    tokens that are the most probable ones; an encoder the same on hidden tokens, which follow from the line. A
    classifier is scored on `label<TAB>text`: accuracy, and macro_f1, the mean F1 of its classes.

    Lines that are no examples are refused with their numbers; data.bad_lines=skip leaves them out and counts them.

    clearhead eval runs/demo --split test

    With --engine, the scores of the engine come first, then the native ones, and how many answers are the same; with
    --int8, those of float32 are beside them.

    clearhead eval runs/demo pairs.tsv decoding.beam_size=1

    clearhead eval runs/one test.tsv --with runs/two

    clearhead eval runs/demo --split test --engine ctranslate2 --int8
    """
    files, settings = files_and_settings(words)
    both = parallel(src, tgt)
    if len(files) + (both is not None) + (split is not None) != 1:
        raise usage("eval", "name what to score on: a file, --src and --tgt, or, for a run folder, --split dev or test")
    data = files[0] if files else both
    asked: dict[str, Any] = {"split": split, "columns": columns_of(columns), "settings": settings}
    asked["metrics"] = "all" if as_json else "main"
    if others and split is not None:
        raise usage("--with and --split", "a split is that of one run, and models together have none: name a file")
    answering, computing = all_together(model, others, engine=engine, int8=int8, device=device)
    if engine != "native" or int8:
        with TerminalReport() as report:
            compared = clearhead.compare_engines(
                model, data, engine=engine, int8=int8, device=device, report=report, **asked
            )
        _print_compared(compared, as_json=as_json)
        return
    with TerminalReport() as report:
        scores = clearhead.evaluate(answering, data, device=computing.get("device"), report=report, **asked)
    if as_json:
        print(json.dumps(scores.table()))
    else:
        print_scores(scores)


def _print_compared(compared: "clearhead.EngineComparison", *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(compared.table()))
        return
    for number, (name, scores) in enumerate(compared.scores.items()):
        counts, *metrics = score_lines(scores)
        print(*([counts] if number == 0 else []), f"{name}:", *(f"  {line}" for line in metrics), sep="\n")
    print(*compared.words(), sep="\n")
