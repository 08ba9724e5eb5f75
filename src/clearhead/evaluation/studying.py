"""Studies heads over a corpus: every head is switched off once for every line, and judged by what changes.

One pass with gradients gives the loss, ∂loss/∂gate and the attention weights of every line; then come as many passes as
there are heads, batch by batch, which is what a journal keeps.
"""

import hashlib
import io
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from clearhead.errors import DataError
from clearhead.evaluation.heads import HeadStudy, StudiedHead
from clearhead.evaluation.judges import judge_of
from clearhead.evaluation.metrics import Metric, Statistic, Weights, ratio, with_intervals
from clearhead.files import write_whole
from clearhead.inspection import (
    ForcedBatch,
    Observations,
    encoded,
    gate_gradients,
    headed_attentions,
    heads_off,
    layer_inputs,
    row_losses,
    starting_at,
    watched_weights,
)
from clearhead.models import Model, evaluating
from clearhead.models.file import add_tensors, stored_tensors
from clearhead.predictor import Predictor, forced_batches
from clearhead.recipe import metric_kinds, recipe_toml

_EVERY = 2.0
"""Seconds between two writings of the journal."""
Numbers = NDArray[np.float64]
Progress = Callable[[float], None]
"""Called with the share of the work that is done, from 0 to 1."""


def study_heads(
    predictor: Predictor,
    examples: Sequence[Any],
    *,
    metric: str | None = None,
    bootstrap: int = 1000,
    journal: Path | None = None,
    progress: Progress | None = None,
) -> HeadStudy:
    """Study all heads of a model on examples such as it learns from.

    Args:
        predictor: the model, as ``clearhead.load`` gives it.
        examples: what ``read_examples`` gives, at least one.
        metric: a metric whose change is measured too; the corpus is then answered once for every head, which takes
            much longer than the loss, and is not kept in the journal.
        bootstrap: samples of lines that the 95 % intervals come from; 0 for none.
        journal: a file that keeps what is done, so that an interrupted study continues there.
        progress: called now and then with the share of the work that is done.
    """
    if not examples:
        raise DataError("there are no examples to study the heads on")
    model = predictor.model
    with heads_off(model, []):  # refuses a model without heads
        pass
    batches = forced_batches(predictor, examples)
    kept = _Journal(journal, _fingerprint(predictor, examples), len(batches), (len(examples), _heads(model)))
    first = _first_pass(predictor, batches, len(examples))
    try:
        _switch_off(predictor, batches, kept, progress or _ignore)
    finally:
        kept.write()
    names = [name for attention in headed_attentions(model) for name in attention.head_names]
    changes = {name: ratio(kept.losses[:, at] - first.losses, first.tokens, times=1) for at, name in enumerate(names)}
    slopes = {name: ratio(first.gradients[:, at], first.tokens, times=1) for at, name in enumerate(names)}
    size = len(examples)
    importance, gradient = with_intervals(changes, size, bootstrap), with_intervals(slopes, size, bootstrap)
    value, by_metric = (None, {}) if metric is None else _metric_changes(predictor, examples, metric, names, bootstrap)
    roles = first.observations.found()
    heads = [
        StudiedHead(name, importance[name], gradient[name], *roles[name], metric=by_metric.get(name)) for name in names
    ]
    loss = with_intervals({"loss": ratio(first.losses, first.tokens, times=1)}, size, bootstrap)["loss"]
    overlap = first.observations.overlap()
    return HeadStudy(tuple(heads), size, int(first.tokens.sum()), loss, overlap, metric, value)


def _ignore(share: float) -> None:
    del share


@dataclass(frozen=True)
class _FirstPass:
    """What one pass with gradients tells of every line."""

    losses: Numbers
    tokens: Numbers
    gradients: Numbers
    """(lines, heads)."""
    observations: Observations


def _first_pass(predictor: Predictor, batches: Sequence[ForcedBatch], lines: int) -> _FirstPass:
    model, choice = predictor.model, predictor.recipe.decoding.attention
    attentions = headed_attentions(model)
    losses, tokens, gradients = np.zeros(lines), np.zeros(lines), np.zeros((lines, _heads(model)))
    observations = Observations(model)
    for batch in batches:
        with evaluating(model, choice, gradients=True), watched_weights(attentions) as seen:
            found, slopes = gate_gradients(model, batch)
            observations.add(batch, seen)
        np.add.at(losses, batch.lines, found.cpu().double().numpy())
        np.add.at(tokens, batch.lines, batch.tokens.numpy())
        joined = torch.cat([slopes[attention.name] for attention in attentions], dim=1)
        np.add.at(gradients, batch.lines, joined.cpu().double().numpy())
    return _FirstPass(losses, tokens, gradients, observations)


def _switch_off(predictor: Predictor, batches: Sequence[ForcedBatch], kept: "_Journal", progress: Progress) -> None:
    """Fill the journal: the loss of every line without each head; what comes before the head is computed once."""
    model, choice = predictor.model, predictor.recipe.decoding.attention
    heads = [(attention, name) for attention in headed_attentions(model) for name in attention.head_names]
    stacks = {name: getattr(model, name, None) for name in ("encoder", "decoder")}
    size, done = sum(len(batch.lines) for batch in batches) * len(heads), 0
    for number, batch in enumerate(batches):
        if not kept.done[number]:
            with (
                evaluating(model, choice),
                layer_inputs(stacks["encoder"]) as read,
                layer_inputs(stacks["decoder"]) as written,
            ):
                memory = encoded(model, batch)
                row_losses(model, batch, memory)
            rows = np.zeros((len(batch.lines), len(heads)))
            for at, (attention, name) in enumerate(heads):
                encoder = attention.stack == "encoder"
                known, stack = (read, stacks["encoder"]) if encoder else (written, stacks["decoder"])
                with evaluating(model, choice), heads_off(model, [name]), starting_at(stack, attention.layer, known):
                    found = row_losses(model, batch, None if encoder else memory)
                rows[:, at] = found.cpu().double().numpy()
                progress((done + (at + 1) * len(batch.lines)) / size)
            kept.add(number, batch.lines, rows)
        done += len(batch.lines) * len(heads)
        progress(done / size)


def _metric_changes(
    predictor: Predictor, examples: Sequence[Any], metric: str, names: Sequence[str], bootstrap: int
) -> tuple[Metric, dict[str, Metric]]:
    """The metric of the whole model, and its change without each head."""
    judge, measure = judge_of(predictor), metric_kinds()[metric].load()

    def statistic() -> tuple[Statistic, int]:
        results = judge.results(predictor, examples)
        return measure(results), results.size

    whole, size = statistic()
    changes = {}
    for name in names:
        with heads_off(predictor.model, [name]):
            without, _ = statistic()
        changes[name] = _difference(without, whole)
    return with_intervals({metric: whole}, size, bootstrap)[metric], with_intervals(changes, size, bootstrap)


def _difference(one: Statistic, other: Statistic) -> Statistic:
    def value(weights: Weights) -> float:
        return one.value(weights) - other.value(weights)

    return Statistic(value)


def _heads(model: Model) -> int:
    return sum(attention.heads for attention in headed_attentions(model))


def _fingerprint(predictor: Predictor, examples: Sequence[Any]) -> str:
    """Of everything that the losses depend on: weights, recipe, tokenizers and examples."""
    digest = hashlib.sha256(recipe_toml(predictor.recipe).encode())
    tensors = {name: tensor.detach().cpu() for name, tensor in stored_tensors(predictor.model).items()}
    add_tensors(digest, tensors)
    for side in predictor.model.spec.sides if hasattr(predictor, "source") else ():
        digest.update(getattr(predictor, side).to_json().encode())
    for example in examples:
        digest.update(repr(example).encode())
    return digest.hexdigest()


class _Journal:
    """What is done of a study: which batches, and the losses of their lines without each head.

    Args:
        path: the file; None to keep nothing.
        fingerprint: of the model and the examples: a journal of others is refused.
        batches: number of batches.
        shape: lines and heads.
    """

    def __init__(self, path: Path | None, fingerprint: str, batches: int, shape: tuple[int, int]) -> None:
        self._path, self._fingerprint = path, fingerprint
        self.done = np.zeros(batches, dtype=bool)
        self.losses: Numbers = np.zeros(shape)
        self._written, self._dirty = time.monotonic(), False
        if path is not None and path.exists():
            self._read(path)

    def _read(self, path: Path) -> None:
        try:
            with np.load(path, allow_pickle=False) as found:
                known, done, losses = str(found["fingerprint"]), found["done"], found["losses"]
        except (OSError, ValueError, KeyError, zipfile.BadZipFile):
            raise DataError(f"{path}: is no journal of a study of heads: name another file, or delete it") from None
        if known != self._fingerprint or done.shape != self.done.shape or losses.shape != self.losses.shape:
            raise DataError(f"{path}: is the journal of another model or other data: name another file, or delete it")
        self.done, self.losses = done.astype(bool), losses.astype(np.float64)

    def add(self, batch: int, lines: Sequence[int], losses: Numbers) -> None:
        """Keep the losses of a batch; the file is written now and then."""
        np.add.at(self.losses, lines, losses)
        self.done[batch], self._dirty = True, True
        if time.monotonic() - self._written > _EVERY:
            self.write()

    def write(self) -> None:
        """Write the file, whole or not at all."""
        if self._path is None or not self._dirty:
            return
        stream = io.BytesIO()
        np.savez(stream, fingerprint=np.array(self._fingerprint), done=self.done, losses=self.losses)
        write_whole(self._path, stream.getvalue())
        self._written, self._dirty = time.monotonic(), False
