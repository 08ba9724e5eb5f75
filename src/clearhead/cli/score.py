"""``clearhead score``: how probable given answers are."""

from pathlib import Path
from typing import Annotated

import typer


def score(
    model: Annotated[Path, typer.Argument(help="A model file, or a run folder.")],
    data: Annotated[Path | None, typer.Argument(help="A file such as the model was trained on.")] = None,
    src: Annotated[Path | None, typer.Option(help="Source lines, parallel to --tgt.")] = None,
    tgt: Annotated[Path | None, typer.Option(help="Target lines.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the example and log p of each token.")] = False,
) -> None:
    """Print log p(target | source) of each pair, the end of the target included: one number a line, in order.

    For a language model log p of each line, its end included; for a classifier log p(label | text).

    clearhead score runs/demo pairs.tsv
    """
    from clearhead.cli.running import score_examples
    from clearhead.errors import DataError

    if (data is None) == (src is None or tgt is None):
        raise DataError("name what to score: a file, or --src and --tgt")
    score_examples(model, str(data) if data is not None else [str(src), str(tgt)], as_json=as_json)
