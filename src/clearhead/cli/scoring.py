"""``clearhead eval`` with torch: loads the model, finds the pairs, prints the scores."""

import json
from dataclasses import asdict
from pathlib import Path

from clearhead.cli.scores import print_scores
from clearhead.data import Pair, read_corpus, read_pairs
from clearhead.errors import DataError
from clearhead.evaluation import evaluate
from clearhead.predictor import load
from clearhead.recipe import read_recipe


def score_model(
    model: Path, data: Path | None, parallel: tuple[Path | None, Path | None], split: str | None, *, as_json: bool
) -> None:
    """Print how good the model is on these pairs."""
    pairs = _pairs(model, data, parallel, split)
    scores = evaluate(load(model), pairs)
    if as_json:
        print(json.dumps(asdict(scores)))
    else:
        print_scores(scores)


def _pairs(model: Path, data: Path | None, parallel: tuple[Path | None, Path | None], split: str | None) -> list[Pair]:
    left, right = parallel
    if data is not None:
        return read_pairs(str(data))[0]
    if left is not None and right is not None:
        return read_pairs([str(left), str(right)])[0]
    if split is not None and model.is_dir():
        corpus = read_corpus(read_recipe(model / "recipe.toml").data)
        pairs = corpus.dev if split == "dev" else corpus.test
        if pairs:
            return pairs
        raise DataError(f"{model}: the run has no {split} pairs")
    raise DataError("name the pairs: a file, --src and --tgt, or, for a run folder, --split dev or --split test")
