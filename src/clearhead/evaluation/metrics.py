"""How good answers are: share of wrong lines, edit distance, BLEU, chrF, TER, F1; with confidence intervals.

A source may have several references; an answer is compared with the one that suits it best.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

References = Sequence[Sequence[str]]
"""For each source, all its references."""


@dataclass(frozen=True)
class Metric:
    """A value and the interval that holds it in 95 % of bootstrap samples."""

    value: float
    low: float
    high: float
    signature: str = ""
    """What exactly was computed, for metrics that have conventions."""


def edit_distance(left: Sequence[str], right: Sequence[str]) -> int:
    """Insertions, deletions and substitutions that turn one sequence into the other.

    >>> edit_distance("kitten", "sitting")
    3
    """
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, start=1):
        diagonal, row[0] = row[0], i
        for j, b in enumerate(right, start=1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (a != b))
    return row[-1]


def line_errors(answers: Sequence[str], references: References) -> NDArray[np.float64]:
    """1 for each answer that equals none of its references."""
    pairs = zip(answers, references, strict=True)
    return np.array([float(answer not in known) for answer, known in pairs])


def symbol_errors(answers: Sequence[str], references: References, *, spaced: bool) -> NDArray[np.float64]:
    """(edit distance to the closest reference, its length) for each answer; symbols stand between spaces, or are
    characters."""

    def symbols(text: str) -> Sequence[str]:
        return text.split() if spaced else text

    rows = []
    for answer, known in zip(answers, references, strict=True):
        distances = [(edit_distance(symbols(answer), symbols(text)), len(symbols(text))) for text in known]
        rows.append(min(distances, key=lambda pair: (pair[0] / max(1, pair[1]), pair[0])))
    return np.array(rows, dtype=np.float64)


def macro_f1(truth: NDArray[np.int64], guess: NDArray[np.int64]) -> float:
    """The mean over classes of F1 = 2·right / (true + guessed), in percent; classes that nobody names do not count."""
    size = int(max(truth.max(), guess.max())) + 1
    named = np.bincount(truth, minlength=size) + np.bincount(guess, minlength=size)
    right = np.bincount(truth[truth == guess], minlength=size)
    return 100 * float((2 * right[named > 0] / named[named > 0]).mean())


NAMES = ("line_error", "symbol_error", "bleu", "chrf", "ter")


def score(
    answers: Sequence[str],
    references: References,
    *,
    spaced: bool,
    bootstrap: int = 1000,
    names: Collection[str] = NAMES,
) -> dict[str, Metric]:
    """The named metrics in percent. ``spaced``: symbols stand between spaces; otherwise they are characters."""
    metrics: dict[str, Metric] = {}
    size = len(answers)
    if "line_error" in names:
        lines = line_errors(answers, references)
        metrics["line_error"] = with_interval(lambda rows: 100 * float(lines[rows].mean()), size, bootstrap)
    if "symbol_error" in names:
        errors = symbol_errors(answers, references, spaced=spaced)

        def rate(rows: NDArray[np.int64]) -> float:
            return 100 * float(errors[rows, 0].sum() / max(1.0, errors[rows, 1].sum()))

        metrics["symbol_error"] = with_interval(rate, size, bootstrap)
    return metrics | _sacrebleu(answers, references, bootstrap, names)


def with_interval(value: Callable[[NDArray[np.int64]], float], size: int, samples: int) -> Metric:
    """The value over all lines, and the middle 95 % of its values over bootstrap samples of the lines."""
    rng = np.random.default_rng(1)
    everything = value(np.arange(size))
    drawn = [value(rng.integers(0, size, size)) for _ in range(samples)]
    low, high = np.percentile(drawn, [2.5, 97.5]) if drawn else (everything, everything)
    return Metric(everything, float(low), float(high))


def _sacrebleu(
    answers: Sequence[str], references: References, bootstrap: int, names: Collection[str]
) -> dict[str, Metric]:
    """BLEU, chrF and TER by sacrebleu, with its signatures; intervals from its statistics of each line.

    sacrebleu's own bootstrap mixes two kinds of floats and fails on some data, so the samples are drawn here.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    most = max(len(known) for known in references)
    # sacrebleu wants one stream per reference number; None stands for a reference that is not there
    streams: list[Any] = [
        [known[index] if index < len(known) else None for known in references] for index in range(most)
    ]
    metrics = {}
    for name, metric in (("bleu", BLEU()), ("chrf", CHRF()), ("ter", TER())):
        if name not in names:
            continue
        whole = metric.corpus_score(list(answers), streams)
        lines = np.array(metric._extract_corpus_statistics(list(answers), streams), dtype=np.float64)

        def value(rows: NDArray[np.int64], metric: Any = metric, lines: NDArray[np.float64] = lines) -> float:
            return float(metric._compute_score_from_stats(lines[rows].sum(0).tolist()).score)

        interval = with_interval(value, len(answers), bootstrap)
        metrics[name] = replace(interval, value=float(whole.score), signature=metric.get_signature().format())
    return metrics
