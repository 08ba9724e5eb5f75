"""From a recipe to everything that training needs, kept in the run folder so that it is done once."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from clearhead.data import Corpus, Encoded, codecs_of, format_of, plan_epoch, read_corpus
from clearhead.errors import DataError
from clearhead.models import build, write_whole
from clearhead.recipe import Recipe, read_recipe, recipe_from, recipe_table, recipe_toml
from clearhead.training.objectives import Codecs, Objective, objective_of
from clearhead.training.optimizer import make_optimizers
from clearhead.training.team import ALONE, Team

DEFAULT_MINUTES = 10.0
FOR_LOOKING = 0.12
"""Part of a budget in minutes that is kept for looks at dev and checkpoints."""
FEWEST_LOOKS, MOST_LOOKS = 4, 20
"""Looks at dev in a run with a budget in minutes: one a minute, within these bounds."""


@dataclass(frozen=True)
class Prepared:
    """A run that is ready to start, or to go on."""

    folder: Path
    recipe: Recipe
    """Resolved: vocabulary sizes and the number of steps are in it."""
    corpus: Corpus[Any]
    codecs: Codecs
    """The tokenizers of source and target."""
    examples: Encoded
    """The training examples."""
    objective: Objective[Any, Any, Any]

    @property
    def tokenizers(self) -> dict[str, str]:
        """The tokenizers as the model file keeps them."""
        return _tokenizers(self.codecs)


def prepare(recipe: Recipe, folder: Path, team: Team = ALONE) -> Prepared:
    """Read, check and encode the data, learn tokenizers, fix the number of steps; ``recipe.toml`` is written last."""
    corpus = read_corpus(recipe.data, format_of(recipe.model))
    codecs, recipe = objective_of(recipe).learn(corpus)
    objective = objective_of(recipe)
    corpus = objective.admitted(corpus)
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    objective.write(corpus, codecs, data)
    examples = objective.open(data)
    if not len(examples):
        raise DataError(f"every training pair is longer than data.max_length ({recipe.data.max_length} tokens)")
    kept = {"tokenizers": _tokenizers(codecs), "fingerprint": corpus.fingerprint()}
    write_whole(data / "tokenizers.json", json.dumps(kept, ensure_ascii=False).encode())
    recipe = _with_dropout(_with_budget(_with_smoothing(recipe, objective), examples, team), examples)
    write_whole(folder / "recipe.toml", recipe_toml(recipe).encode())
    return Prepared(folder, recipe, corpus, codecs, examples, objective_of(recipe))


def reopen(folder: Path) -> Prepared:
    """What ``prepare`` left in a run folder; data that have changed since are refused."""
    recipe = read_recipe(folder / "recipe.toml")
    objective = objective_of(recipe)
    kept = json.loads((folder / "data" / "tokenizers.json").read_text(encoding="utf-8"))
    corpus = read_corpus(recipe.data, format_of(recipe.model))
    if corpus.fingerprint() != kept["fingerprint"]:
        raise DataError(f"the data have changed since {folder} was started: start a new run, or restore the files")
    codecs: Codecs = codecs_of(kept["tokenizers"]) if kept["tokenizers"] else ()
    return Prepared(folder, recipe, objective.admitted(corpus), codecs, objective.open(folder / "data"), objective)


def _tokenizers(codecs: Codecs) -> dict[str, str]:
    if not codecs:
        return {}
    source, target = codecs
    if source is target:
        return {"shared": source.to_json()}
    return {"source": source.to_json(), "target": target.to_json()}


def _with_smoothing(recipe: Recipe, objective: Objective[Any, Any, Any]) -> Recipe:
    """Resolve what the family decides."""
    table = recipe_table(recipe)
    table["training"]["label_smoothing"] = objective.smoothing
    return recipe_from(table)


def _with_budget(recipe: Recipe, examples: Encoded, team: Team) -> Recipe:
    """Turn epochs or minutes into steps, the only clock of training."""
    spec = recipe.training
    look_every = spec.evaluate_every
    if spec.steps is not None:
        return recipe
    if spec.epochs is not None:
        plan = plan_epoch(examples, seed=spec.seed, epoch=0, batch_tokens=spec.batch_tokens, window=spec.window)
        steps = max(1, spec.epochs * len(plan) // spec.accumulate)
    else:
        minutes = spec.minutes or DEFAULT_MINUTES
        steps = max(1, int(60 * minutes * (1 - FOR_LOOKING) / seconds_per_step(recipe, examples, team)))
        looks = max(FEWEST_LOOKS, min(MOST_LOOKS, round(minutes)))
        look_every = spec.evaluate_every or max(1, steps // looks)
    table = recipe_table(recipe)
    kept = {name: value for name, value in table["training"].items() if name not in ("epochs", "minutes")}
    table["training"] = kept | {"steps": steps} | ({"evaluate_every": look_every} if look_every else {})
    return recipe_from(table)


def _with_dropout(recipe: Recipe, examples: Encoded) -> Recipe:
    """Resolve ``auto``: the more often the data are seen, the more is dropped."""
    spec = recipe.training
    assert spec.steps is not None
    tokens = float(max(sizes.sum() for sizes in examples.sizes))
    passes = spec.steps * spec.accumulate * spec.batch_tokens / tokens
    rate = round(min(0.3, max(0.05, passes / 100)), 3)
    table = recipe_table(recipe)
    for stack in ("encoder", "decoder"):
        dropout = table["model"].get(stack, {}).get("dropout", {})
        dropout |= {place: rate for place, given in dropout.items() if given == "auto"}
    return recipe_from(table)


def seconds_per_step(recipe: Recipe, examples: Encoded, team: Team = ALONE, *, at_least: float = 6.0) -> float:
    """A short calibration on a throw-away model: real steps over real batches, the first few not counted.

    In a team one process's share of each batch is timed; what the processes send each other is not.
    """
    spec, objective = recipe.training, objective_of(recipe)
    model = build(recipe, seed=0)
    optimizers = make_optimizers(model, spec.optimizer)
    plan = plan_epoch(examples, seed=spec.seed, epoch=0, batch_tokens=spec.batch_tokens, window=spec.window)
    times: list[float] = []
    state = torch.random.get_rng_state()
    while sum(times) < at_least and len(times) < 200:
        start = time.perf_counter()
        for _ in range(spec.accumulate):
            rows, _ = team.share(plan[len(times) % len(plan)])
            batch = objective.batch(examples, rows, 0)
            (objective.loss(model, batch) / batch.tokens).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        times.append(time.perf_counter() - start)
    torch.random.set_rng_state(state)
    settled = times[len(times) // 5 :]
    return sum(settled) / len(settled)
