"""``clearhead check``: the data doctor."""

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.files import data_settings
from clearhead.cli.names import recipe_named
from clearhead.cli.words import columns_setting

if TYPE_CHECKING:
    from clearhead.data import Checkup

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
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Examine data before training on them: bad lines, duplicates, leaks between splits, lengths, unknown tokens.

    What a line should be depends on the model, as for `clearhead train`: text for model.family=lm (which a .txt file
    without tabs means by itself) and encoder, `label<TAB>text` for classifier, else a pair. Files are TSV, CSV or
    JSONL; a header such as source,target is noticed, and --columns names other columns. Exits with 3 if something is
    wrong, and with 0 if there are only things to look at.
    """
    from clearhead.data import check_corpus, format_of, read_corpus

    source, settings = data_settings(what or [], {"train": train, "dev": dev, "test": test}, {"train": (src, tgt)})
    recipe = recipe_named(source, *settings, *columns_setting(columns), "data.bad_lines=skip", anew=True)
    checkup = check_corpus(read_corpus(recipe.data, format_of(recipe.model)))
    if as_json:
        print(json.dumps(_table(checkup), ensure_ascii=False))
    else:
        _print(checkup)
    if not checkup.healthy:
        raise typer.Exit(3)


def _table(checkup: "Checkup") -> dict[str, object]:
    sides = checkup.sides.items()
    return {
        "healthy": checkup.healthy,
        "examples": checkup.name,
        "sizes": checkup.sizes,
        "tokenizers": {name: side.kind for name, side in sides},
        "vocabulary": {name: side.vocabulary for name, side in sides},
        "characters": {name: side.alphabet for name, side in sides},
        "labels": dict(checkup.labels),
        "unknown_percent": checkup.unknown,
        "round_trip_loss_percent": checkup.lost,
        "notes": checkup.notes,
        "findings": [
            {"what": finding.what, "serious": finding.serious, "count": finding.count, "examples": finding.examples}
            for finding in checkup.findings
        ],
    }


def _print(checkup: "Checkup") -> None:
    print(f"{checkup.name}: " + ", ".join(f"{size:,} {part}" for part, size in checkup.sizes.items()))
    for note in checkup.notes:
        print(f"{'note':<12}{note}")
    for name, side in checkup.sides.items():
        print(f"{name:<12}{side.kind}, vocabulary {side.vocabulary:,}, {side.alphabet:,} distinct characters")
        _histogram(side.lengths)
    if checkup.labels:
        shown = ", ".join(f"{label} {count:,}" for label, count in checkup.labels.most_common(MOST_LABELS))
        more = len(checkup.labels) - MOST_LABELS
        print(f"{'labels':<12}{shown}" + (f", and {more:,} more" if more > 0 else ""))
    for part in checkup.unknown:
        print(
            f"{part:<12}{checkup.unknown[part]:.3f} % unknown tokens, "
            f"{checkup.lost[part]:.3f} % of lines do not come back from their tokens"
        )
    for finding in checkup.findings:
        if finding.count:
            print(f"{'wrong' if finding.serious else 'look at':<12}{finding.count:,} {finding.what}")
            for example in finding.examples:
                print(f"            {example}")
    print("nothing is wrong" if checkup.healthy else "fix what is wrong before training")


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
