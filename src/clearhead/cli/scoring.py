"""``clearhead eval`` with torch: loads the model, finds the examples, prints the scores."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clearhead.cli.scores import print_scores
from clearhead.data import Where, format_of, read_corpus, shown
from clearhead.errors import DataError
from clearhead.evaluation import evaluate
from clearhead.predictor import Predictor, load
from clearhead.recipe import read_recipe
from clearhead.training import objective_of


def score_model(model: Path, where: Where | None, split: str | None, settings: Sequence[str], *, as_json: bool) -> None:
    """Print how good the model is on these examples, or else on a split of its run."""
    predictor = load(model, *settings)
    examples = _split(model, split) if where is None else read_examples(predictor, where)
    scores = evaluate(predictor, examples)
    if as_json:
        print(json.dumps(scores.table()))
    else:
        print_scores(scores)


def read_examples(predictor: Predictor, where: Where) -> list[Any]:
    """Examples to score a model on; those that it cannot be scored on are refused with their lines."""
    examples, skipped = format_of(predictor.model.spec).read(where)
    for bad in predictor.unfit(examples, shown(where)):
        skipped.add(bad)
    skipped.refuse()
    return examples


def _split(run: Path, split: str | None) -> list[Any]:
    """The dev or test examples of a run folder."""
    recipe = read_recipe(run / "recipe.toml")
    corpus = objective_of(recipe).admitted(read_corpus(recipe.data, format_of(recipe.model)))
    examples = corpus.dev if split == "dev" else corpus.test
    if examples:
        return examples
    raise DataError(f"{run}: the run has no {split} {corpus.format.name}")
