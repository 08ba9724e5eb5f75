"""Scoring a model on pairs: its answers against their references, and its likelihood of them."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch

from clearhead.data import EOS, PAD, Codec, Pair
from clearhead.evaluation.answers import answer
from clearhead.evaluation.metrics import NAMES, Metric, score
from clearhead.models import Seq2Seq
from clearhead.recipe import Decoding


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
    model: Seq2Seq,
    source: Codec,
    target: Codec,
    pairs: Sequence[Pair],
    decoding: Decoding,
    *,
    bootstrap: int = 1000,
    names: Collection[str] = NAMES,
) -> Scores:
    """Answer every source once and compare with all its references; then the likelihood of every pair."""
    sources, references = group(pairs)
    answers = answer(model, source, target, sources, decoding)
    accuracy, perplexity = likelihood(model, source, target, pairs)
    metrics = score(answers, references, spaced=target.kind == "symbols", bootstrap=bootstrap, names=names)
    return Scores(metrics, accuracy, perplexity, len(sources), len(pairs))


def usual_metric(target: Codec) -> str:
    """What the best model is chosen by unless the recipe says otherwise."""
    return "line_error" if target.kind in ("symbols", "characters") else "bleu"


def dev_scores(
    model: Seq2Seq, source: Codec, target: Codec, pairs: Sequence[Pair], decoding: Decoding, *, metric: str
) -> dict[str, float]:
    """What is looked at while training: the same answers and metrics as ``evaluate``, ``metric`` among them."""
    usual = ["line_error", "symbol_error"] if usual_metric(target) == "line_error" else ["bleu", "chrf"]
    names = [name for name in NAMES if name in usual or name == metric]
    scores = evaluate(model, source, target, pairs, decoding, bootstrap=0, names=names)
    return {name: scores.metrics[name].value for name in names} | {"loss": math.log(scores.perplexity)}


@torch.inference_mode()
def likelihood(model: Seq2Seq, source: Codec, target: Codec, pairs: Sequence[Pair]) -> tuple[float, float]:
    """(token accuracy in percent, perplexity) with the true tokens fed in (L0.1)."""
    first = model.spec.vocabulary.first
    assert first is not None
    left = source.encode([pair.source for pair in pairs])
    right = target.encode([pair.target for pair in pairs])
    order = sorted(range(len(pairs)), key=lambda index: (len(right[index]), len(left[index])))
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    right_tokens, tokens, total = 0, 0, 0.0
    for start in range(0, len(order), 64):
        rows = order[start : start + 64]
        ids = _padded([[*left[row], EOS] for row in rows]).to(device)
        inputs = _padded([[first, *right[row]] for row in rows]).to(device)
        labels = _padded([[*right[row], EOS] for row in rows]).to(device)
        logits = model(ids, inputs)
        there = labels != PAD
        log_p = logits.log_softmax(-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
        total -= float(log_p[there].double().sum())
        right_tokens += int((logits.argmax(-1) == labels)[there].sum())
        tokens += int(there.sum())
    model.train(was_training)
    return 100 * right_tokens / tokens, math.exp(min(total / tokens, 700))


def _padded(rows: list[list[int]]) -> torch.Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])
