"""The functions of the metrics: from a model's results to a statistic; the table is ``clearhead.recipe.metrics``."""

import math
from typing import Any

import numpy as np

from clearhead.evaluation.metrics import Statistic, Weights, ratio
from clearhead.evaluation.results import LabelResults, PairResults, Results


def line_error(results: PairResults) -> Statistic:
    """Share of sources whose answer equals none of their references."""
    return ratio(results.line_errors, np.ones(results.size))


def symbol_error(results: PairResults) -> Statistic:
    """Edit distance to the closest reference, over its length, all lines together."""
    return ratio(*results.symbol_errors.T)


def accuracy(results: LabelResults) -> Statistic:
    """Share of labels that are right."""
    return token_accuracy(results)


def macro_f1(results: LabelResults) -> Statistic:
    """The mean over classes of F1 = 2·right / (true + guessed); classes that nobody names do not count."""
    truth, guess, size = results.truth, results.guess, len(results.labels)
    right = truth == guess

    def value(weights: Weights) -> float:
        named = np.bincount(truth, weights, size) + np.bincount(guess, weights, size)
        hits = np.bincount(truth[right], weights[right], size)
        return 100 * float((2 * hits[named > 0] / named[named > 0]).mean())

    return Statistic(value)


def token_accuracy(results: Results) -> Statistic:
    """Share of tokens that are the most probable ones, given the true tokens before (lm, pairs) or around them."""
    return ratio(results.likelihood.right, results.likelihood.tokens)


def loss(results: Results) -> Statistic:
    """The mean −log p of a token, or of a label."""
    return ratio(-results.likelihood.log_p, results.likelihood.tokens, times=1)


def perplexity(results: Results) -> Statistic:
    """e to the mean −log p of a token."""
    mean = loss(results).value
    return Statistic(lambda weights: math.exp(min(mean(weights), 700)))


def bleu(results: PairResults) -> Statistic:
    """BLEU with sacrebleu's defaults."""
    from sacrebleu.metrics.bleu import BLEU

    return _sacrebleu(BLEU(), results)


def chrf(results: PairResults) -> Statistic:
    """chrF with sacrebleu's defaults."""
    from sacrebleu.metrics.chrf import CHRF

    return _sacrebleu(CHRF(), results)


def ter(results: PairResults) -> Statistic:
    """TER with sacrebleu's defaults."""
    from sacrebleu.metrics.ter import TER

    return _sacrebleu(TER(), results)


def _sacrebleu(metric: Any, results: PairResults) -> Statistic:
    """A metric of sacrebleu, from its statistics of each line, which it adds up itself to score a corpus.

    sacrebleu's own bootstrap mixes two kinds of floats and fails on some data, so the samples are drawn here.
    """
    answers, references = list(results.answers), results.references
    most = max(len(known) for known in references)
    # sacrebleu wants one stream per reference number; None stands for a reference that is not there
    streams: list[Any] = [
        [known[index] if index < len(known) else None for known in references] for index in range(most)
    ]
    rows = np.array(metric._extract_corpus_statistics(answers, streams), dtype=np.float64)

    def value(weights: Weights) -> float:
        return float(metric._compute_score_from_stats((weights @ rows).tolist()).score)

    return Statistic(value, metric.get_signature().format())
