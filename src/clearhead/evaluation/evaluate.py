"""Scoring a model on pairs: its answers against their references, and its likelihood of them."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from clearhead.data import Codec, Pair
from clearhead.evaluation.metrics import NAMES, Metric, score
from clearhead.predictor import Predictor


@dataclass(frozen=True)
class Scores:
    """What `clearhead eval` reports."""

    metrics: dict[str, Metric]
    token_accuracy: float
    """Share of target tokens that are the most probable ones, given the true tokens before them, in percent."""
    perplexity: float
    """e to the mean −log p of a target token."""
    sources: int
    references: int


def group(pairs: Sequence[Pair]) -> tuple[list[str], list[list[str]]]:
    """Each source once, with all its references, in order of appearance."""
    known: dict[str, list[str]] = {}
    for pair in pairs:
        known.setdefault(pair.source, []).append(pair.target)
    return list(known), list(known.values())


def evaluate(
    predictor: Predictor, pairs: Sequence[Pair], *, bootstrap: int = 1000, names: Collection[str] = NAMES
) -> Scores:
    """Answer every source once and compare with all its references; then the likelihood of every pair."""
    sources, references = group(pairs)
    answers = predictor.generate(sources)
    accuracy, perplexity = likelihood(predictor, pairs)
    spaced = predictor.target.kind == "symbols"
    metrics = score(answers, references, spaced=spaced, bootstrap=bootstrap, names=names)
    return Scores(metrics, accuracy, perplexity, len(sources), len(pairs))


def usual_metric(target: Codec) -> str:
    """What the best model is chosen by unless the recipe says otherwise."""
    return "line_error" if target.kind in ("symbols", "characters") else "bleu"


def dev_scores(predictor: Predictor, pairs: Sequence[Pair], *, metric: str) -> dict[str, float]:
    """What is looked at while training: the same answers and metrics as ``evaluate``, ``metric`` among them."""
    usual = ["line_error", "symbol_error"] if usual_metric(predictor.target) == "line_error" else ["bleu", "chrf"]
    names = [name for name in NAMES if name in usual or name == metric]
    scores = evaluate(predictor, pairs, bootstrap=0, names=names)
    return {name: scores.metrics[name].value for name in names} | {"loss": math.log(scores.perplexity)}


def likelihood(predictor: Predictor, pairs: Sequence[Pair]) -> tuple[float, float]:
    """(token accuracy in percent, perplexity) with the true tokens fed in (L0.1)."""
    lines = predictor.forced([pair.source for pair in pairs], [pair.target for pair in pairs])
    tokens = sum(len(line.log_probabilities) for line in lines)
    total = -sum(line.log_probability for line in lines)
    return 100 * sum(line.right for line in lines) / tokens, math.exp(min(total / tokens, 700))
