"""``clearhead score``: how probable given answers are."""

from pathlib import Path
from typing import Annotated

import typer


def score(
    model: Annotated[Path, typer.Argument(help="A model file, or a run folder.")],
    data: Annotated[Path | None, typer.Argument(help="A file of pairs (.tsv, .jsonl, also .gz).")] = None,
    src: Annotated[Path | None, typer.Option(help="Source lines, parallel to --tgt.")] = None,
    tgt: Annotated[Path | None, typer.Option(help="Target lines.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print source, target and log p of each token.")] = False,
) -> None:
    """Print log p(target | source) of each pair, the end of the target included: one number a line, in order.

    clearhead score runs/demo pairs.tsv
    """
    from clearhead.cli.running import score_pairs
    from clearhead.errors import DataError

    if (data is None) == (src is None or tgt is None):
        raise DataError("name the pairs: a file, or --src and --tgt")
    score_pairs(model, str(data) if data is not None else [str(src), str(tgt)], as_json=as_json)
