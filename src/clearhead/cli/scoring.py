"""``clearhead eval`` with torch: loads the model, finds the examples, prints the scores."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clearhead.cli.names import model_named
from clearhead.cli.scores import print_scores
from clearhead.cli.warned import warn_of_unknown
from clearhead.data import Where, format_of, read_corpus, shown
from clearhead.errors import DataError, Problem, RecipeError
from clearhead.evaluation import evaluate, read_examples
from clearhead.models import use_cores
from clearhead.predictor import Predictor
from clearhead.recipe import read_recipe
from clearhead.training import objective_of

READING = ("data.bad_lines", "data.columns")
"""Settings of ``[data]`` that say how a file is read to be scored; everything else of it is the model's own."""


def score_model(model: str, where: Where | None, split: str | None, settings: Sequence[str], *, as_json: bool) -> None:
    """Print how good the model is on these examples, or else on a split of its run."""
    use_cores()
    reading, others = reading_settings(settings)
    predictor = model_named(model, *others)
    if where is None:
        examples, left_out = _split(predictor, Path(model), split, reading), 0
    else:
        examples, left_out = examples_to_score(predictor, where, reading)
    scores = evaluate(predictor, examples)
    if as_json:
        print(json.dumps(scores.table() | ({"left_out": left_out} if left_out else {})))
    else:
        print_scores(scores)


def reading_settings(settings: Sequence[str]) -> tuple[list[str], list[str]]:
    """The settings that say how data are read, and the others, which the model judges; no more of data can be set."""
    reading = [word for word in settings if word.partition("=")[0].strip() in READING]
    for word in settings:
        if word.startswith("data.") and word not in reading:
            problem = f"of the data only {' and '.join(READING)} can be set for a trained model"
            raise RecipeError([Problem("command line", word, problem)])
    return reading, [word for word in settings if word not in reading]


def examples_to_score(predictor: Predictor, where: Where, reading: Sequence[str]) -> tuple[list[Any], int]:
    """The examples, and how many lines were left out; what was decided about the file is said on stderr."""
    spec = read_recipe(None, f"model.family={predictor.model.spec.family}", *reading).data
    found = read_examples(predictor, where, bad_lines=spec.bad_lines, columns=spec.columns)
    for note in [*found.notes, *([str(found.skipped)] if found.skipped else [])]:
        print(note, file=sys.stderr)
    warn_of_unknown(predictor, found.examples, shown(where))
    return found.examples, len(found.skipped)


def _split(predictor: Predictor, run: Path, split: str | None, reading: Sequence[str]) -> list[Any]:
    """The dev or test examples of a run folder."""
    for word in reading:
        if word.startswith("data.columns"):
            raise RecipeError(
                [Problem("command line", word, f"the {split} data of a run are read as the run read them")]
            )
    recipe = read_recipe(run, *reading)
    if recipe.model != predictor.model.spec:
        raise DataError(f"{run}: its best model was built from another recipe: put this run's own back, or name a file")
    corpus = objective_of(recipe).admitted(read_corpus(recipe.data, format_of(recipe.model)))
    examples = corpus.dev if split == "dev" else corpus.test
    if examples:
        return examples
    raise DataError(f"{run}: the run has no {split} {corpus.format.name}")
