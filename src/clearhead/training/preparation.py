"""From a recipe to everything that training needs, kept in the run folder so that it is done once."""

import json
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from clearhead.data import (
    BOS,
    EOS,
    PAD,
    UNK,
    Codec,
    Corpus,
    EncodedPairs,
    learn_codecs,
    make_batch,
    plan_epoch,
    read_corpus,
    read_encoded,
    write_encoded,
)
from clearhead.errors import ClearheadError, DataError
from clearhead.models import Seq2Seq, build, write_whole
from clearhead.recipe import Recipe, read_recipe, recipe_from, recipe_table, recipe_toml
from clearhead.training.optimizer import make_optimizers
from clearhead.training.trainer import batch_loss

SAMPLE = 1_000_000
"""Training pairs that tokenizers are learnt from, at most."""
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
    corpus: Corpus
    source: Codec
    target: Codec
    pairs: EncodedPairs

    @property
    def tokenizers(self) -> dict[str, str]:
        """The tokenizers as the model file keeps them."""
        if self.source is self.target:
            return {"shared": self.source.to_json()}
        return {"source": self.source.to_json(), "target": self.target.to_json()}


def prepare(recipe: Recipe, folder: Path) -> Prepared:
    """Read, check and encode the data, learn tokenizers, fix the number of steps; ``recipe.toml`` is written last."""
    corpus = read_corpus(recipe.data)
    folder.mkdir(parents=True, exist_ok=True)
    stride = max(1, corpus.train_size // SAMPLE)
    sample = [pair for index, pair in enumerate(corpus.train()) if index % stride == 0]
    source, target = learn_codecs([pair.source for pair in sample], [pair.target for pair in sample], recipe.data)
    del sample
    data = folder / "data"
    write_encoded(corpus.train(), source, target, data, "train", max_length=recipe.data.max_length)
    pairs = read_encoded(data, "train")
    if not len(pairs):
        raise DataError(f"every training pair is longer than data.max_length ({recipe.data.max_length} tokens)")
    tokenizers = {"source": source.to_json(), "target": target.to_json(), "shared": source is target}
    tokenizers["fingerprint"] = corpus.fingerprint()
    write_whole(data / "tokenizers.json", json.dumps(tokenizers, ensure_ascii=False).encode())
    recipe = _with_dropout(_with_budget(_with_vocabulary(recipe, source, target), pairs), pairs)
    write_whole(folder / "recipe.toml", recipe_toml(recipe).encode())
    return Prepared(folder, recipe, corpus, source, target, pairs)


def reopen(folder: Path) -> Prepared:
    """What ``prepare`` left in a run folder; data that have changed since are refused."""
    recipe = read_recipe(folder / "recipe.toml")
    kept = json.loads((folder / "data" / "tokenizers.json").read_text(encoding="utf-8"))
    corpus = read_corpus(recipe.data)
    if corpus.fingerprint() != kept["fingerprint"]:
        raise DataError(f"the data have changed since {folder} was started: start a new run, or restore the files")
    source = Codec.from_json(kept["source"])
    target = source if kept["shared"] else Codec.from_json(kept["target"])
    return Prepared(folder, recipe, corpus, source, target, read_encoded(folder / "data", "train"))


def _with_vocabulary(recipe: Recipe, source: Codec, target: Codec) -> Recipe:
    table = recipe_table(recipe)
    specials = {"pad": PAD, "bos": BOS, "eos": EOS, "unk": UNK}
    table["model"]["vocabulary"] = {"source": len(source), "target": len(target)} | specials
    if table["model"]["embedding"]["tie"] == "auto":
        table["model"]["embedding"]["tie"] = "all" if source is target else "output"
    return recipe_from(table)


def _with_budget(recipe: Recipe, pairs: EncodedPairs) -> Recipe:
    """Turn epochs or minutes into steps, the only clock of training."""
    spec = recipe.training
    look_every = spec.evaluate_every
    if spec.steps is not None:
        return recipe
    if spec.epochs is not None:
        plan = plan_epoch(pairs, seed=spec.seed, epoch=0, batch_tokens=spec.batch_tokens, window=spec.window)
        steps = max(1, spec.epochs * len(plan) // spec.accumulate)
    else:
        minutes = spec.minutes or DEFAULT_MINUTES
        steps = max(1, int(60 * minutes * (1 - FOR_LOOKING) / seconds_per_step(recipe, pairs)))
        looks = max(FEWEST_LOOKS, min(MOST_LOOKS, round(minutes)))
        look_every = spec.evaluate_every or max(1, steps // looks)
    table = recipe_table(recipe)
    kept = {name: value for name, value in table["training"].items() if name not in ("epochs", "minutes")}
    table["training"] = kept | {"steps": steps} | ({"evaluate_every": look_every} if look_every else {})
    return recipe_from(table)


def _with_dropout(recipe: Recipe, pairs: EncodedPairs) -> Recipe:
    """Resolve ``auto``: the more often the data are seen, the more is dropped."""
    spec = recipe.training
    assert spec.steps is not None
    tokens = float(max(pairs.source.lengths.sum(), pairs.target.lengths.sum())) + len(pairs)
    passes = spec.steps * spec.accumulate * spec.batch_tokens / tokens
    rate = round(min(0.3, max(0.05, passes / 100)), 3)
    table = recipe_table(recipe)
    for stack in ("encoder", "decoder"):
        dropout = table["model"].get(stack, {}).get("dropout", {})
        dropout |= {place: rate for place, given in dropout.items() if given == "auto"}
    return recipe_from(table)


def seconds_per_step(recipe: Recipe, pairs: EncodedPairs, *, at_least: float = 6.0) -> float:
    """A short calibration on a throw-away model: real steps over real batches, the first few not counted."""
    spec = recipe.training
    model = build(recipe, seed=0)
    if not isinstance(model, Seq2Seq):
        raise ClearheadError("only seq2seq models can be trained yet")
    optimizers = make_optimizers(model, spec.optimizer)
    plan = plan_epoch(pairs, seed=spec.seed, epoch=0, batch_tokens=spec.batch_tokens, window=spec.window)
    times: list[float] = []
    state = torch.random.get_rng_state()
    while sum(times) < at_least and len(times) < 200:
        start = time.perf_counter()
        for _ in range(spec.accumulate):
            batch = make_batch(pairs, plan[len(times) % len(plan)])
            (batch_loss(model, batch, spec.label_smoothing) / batch.tokens).backward()  # type: ignore[no-untyped-call]
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        times.append(time.perf_counter() - start)
    torch.random.set_rng_state(state)
    settled = times[len(times) // 5 :]
    return sum(settled) / len(settled)
