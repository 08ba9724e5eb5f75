"""``clearhead check``: the data doctor."""

import json
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

import clearhead
from clearhead.cli.words import columns_of, files_and_settings, one_of, parallel

MOST_LABELS = 20
"""Labels that are shown with their counts."""


def check(
    what: Annotated[
        list[str] | None, typer.Argument(help="A file (or -), a task, a recipe or model; then section.key=value …")
    ] = None,
    train: Annotated[Path | None, typer.Option(help="Training data.")] = None,
    dev: Annotated[Path | None, typer.Option(help="Data to choose the best model by.")] = None,
    test: Annotated[Path | None, typer.Option(help="Data to look at only at the end.")] = None,
    src: Annotated[Path | None, typer.Option(help="Source lines, parallel to --tgt.")] = None,
    tgt: Annotated[Path | None, typer.Option(help="Target lines.")] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Columns of the files: names of a header or JSON fields, or numbers: 1,3."),
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", metavar="MODEL", help="A trained model to be tuned: what is new to it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Examine data before training on them: bad lines, duplicates, leaks between splits, lengths, unknown tokens.

    What a line should be depends on the model, as for `clearhead train`: text for model.family=lm (which a .txt file
    without tabs means by itself) and encoder, `label<TAB>text` for classifier, else a pair. Files are TSV, CSV or
    JSONL; a header such as source,target is noticed, and --columns names other columns. Exits with 3 if something is
    wrong, and with 0 if there are only things to look at.
    """
    names, settings = files_and_settings(what)
    recipe, data = clearhead.recipe_and_data(names)
    both = parallel(src, tgt)
    one_of({"DATA": data, "--train": train, "--src, --tgt": both}, "training data")
    findings = clearhead.check(
        data or train or both,
        dev=dev,
        test=test,
        columns=columns_of(columns),
        recipe=recipe,
        start=start,
        settings=settings,
    )
    if as_json:
        print(json.dumps(findings.table(), ensure_ascii=False))
    else:
        _print(findings)
    if not findings.healthy:
        raise typer.Exit(3)


def _print(findings: "clearhead.Findings") -> None:
    print(f"{findings.name}: " + ", ".join(f"{size:,} {part}" for part, size in findings.sizes.items()))
    for note in findings.notes:
        print(f"{'note':<12}{note}")
    for name, side in findings.sides.items():
        print(f"{name:<12}{side.kind}, vocabulary {side.vocabulary:,}, {side.alphabet:,} distinct characters")
        _histogram(side.lengths)
    if findings.labels:
        shown = ", ".join(f"{label} {count:,}" for label, count in findings.labels.most_common(MOST_LABELS))
        more = len(findings.labels) - MOST_LABELS
        print(f"{'labels':<12}{shown}" + (f", and {more:,} more" if more > 0 else ""))
    for part in findings.unknown:
        print(
            f"{part:<12}{findings.unknown[part]:.3f} % unknown tokens, "
            f"{findings.lost[part]:.3f} % of lines do not come back from their tokens"
        )
    for finding in findings.findings:
        if finding.count:
            print(f"{'wrong' if finding.serious else 'look at':<12}{finding.count:,} {finding.what}")
            for example in finding.examples:
                print(f"            {example}")
    print("nothing is wrong" if findings.healthy else "fix what is wrong before training")


def _histogram(lengths: Counter[int], rows: int = 8, width: int = 40) -> None:
    """Lengths in tokens, as bars."""
    longest = max(lengths)
    step = max(1, -(-longest // rows))
    bins = Counter(dict.fromkeys(range(0, longest + 1, step), 0))
    for length, count in lengths.items():
        bins[length // step * step] += count
    most = max(bins.values())
    for start, count in sorted(bins.items()):
        label = f"{start}–{start + step - 1}" if step > 1 else str(start)
        print(f"  {label:>9} {'█' * round(width * count / most):<{width}} {count:,}")
