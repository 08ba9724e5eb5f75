"""Metrics against hand-made numbers, sacrebleu and scikit-learn; several references count."""

import math
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from clearhead.data import Pair
from clearhead.evaluation import (
    LabelResults,
    Statistic,
    TextResults,
    edit_distance,
    line_errors,
    measure,
    ratio,
    score,
    symbol_errors,
)
from clearhead.evaluation.judges import PairJudge
from clearhead.evaluation.metrics import with_intervals
from clearhead.predictor import ForcedLine
from tests.evaluation.results import forced, labels, pairs, texts

short = st.text("abc", max_size=6)


def table_distance(left: str, right: str) -> int:
    """The distance by its definition, the whole table (Wagner and Fischer 1974)."""
    table = [[i + j if i * j == 0 else 0 for j in range(len(right) + 1)] for i in range(len(left) + 1)]
    for i, a in enumerate(left, start=1):
        for j, b in enumerate(right, start=1):
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + (a != b))
    return table[-1][-1]


@given(short, short, short)
def test_edit_distance_is_a_distance(a: str, b: str, c: str) -> None:
    assert edit_distance(a, b) == edit_distance(b, a)
    assert (edit_distance(a, b) == 0) == (a == b)
    assert edit_distance(a, c) <= edit_distance(a, b) + edit_distance(b, c)
    assert edit_distance(a, b) >= abs(len(a) - len(b))


@given(st.text("abcd", max_size=90), st.text("abcd", max_size=90))
def test_edit_distance_is_that_of_the_table(a: str, b: str) -> None:
    """Also where a row has more bits than a machine's word."""
    assert edit_distance(a, b) == table_distance(a, b)


def test_edit_distance_by_hand() -> None:
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance(["AH", "B", "K"], ["AH", "K"]) == 1
    assert edit_distance("", "abc") == edit_distance("abc", "") == 3


def test_any_reference_will_do() -> None:
    """line_error: equals none of its references; symbol_error: to the closest one, over that one's length."""
    answers, references = ["T AH", "K AE T"], [["T AA", "T AH"], ["D AO G Z", "K AE"]]
    assert line_errors(answers, references).tolist() == [0.0, 1.0]
    assert symbol_errors(answers, references, spaced=True).tolist() == [[0.0, 2.0], [1.0, 2.0]]
    metrics = score(answers, references, spaced=True, bootstrap=200)
    assert metrics["line_error"].value == 50.0
    assert metrics["symbol_error"].value == pytest.approx(25.0)
    only_first = [[known[0]] for known in references]
    assert score(answers, only_first, spaced=True, bootstrap=0)["line_error"].value == 100.0


def test_intervals_hold_the_value_and_narrow_with_more_lines() -> None:
    """Reference: the normal approximation of a share, p ± 1.96 √(p (1 − p) / n)."""
    rng = np.random.default_rng(0)

    def width(lines: int) -> float:
        answers = ["a" if right else "b" for right in rng.random(lines) < 0.7]
        metric = score(answers, [["a"]] * lines, spaced=False, bootstrap=1000, names=["line_error"])["line_error"]
        assert metric.low is not None
        assert metric.high is not None
        assert metric.low < metric.value < metric.high
        expected = 2 * 1.96 * math.sqrt(metric.value * (100 - metric.value) / lines)
        assert metric.high - metric.low == pytest.approx(expected, rel=0.12)
        return metric.high - metric.low

    assert width(2000) < width(100) / 2


def test_a_sample_draws_whole_lines() -> None:
    """A ratio of sums is resampled line by line: numerator and denominator go together, and seen once each here."""
    seen: list[np.ndarray] = []

    def value(weights: np.ndarray) -> float:
        seen.append(weights)
        return float(weights.sum())

    found = with_intervals({"rows": Statistic(value, "here")}, 7, 20)["rows"]
    assert (found.value, found.low, found.high, found.signature) == (7.0, 7.0, 7.0, "here")
    assert all(weights.sum() == 7 and (weights % 1 == 0).all() for weights in seen)
    assert len({tuple(weights) for weights in seen}) > 15
    assert ratio([1, 2], [2, 8]).value(np.array([1.0, 1.0])) == 30.0
    assert ratio([1, 2], [2, 8]).value(np.array([2.0, 0.0])) == 50.0


def test_every_call_draws_the_same_samples() -> None:
    """So that two scores of one file agree, and metrics can be compared sample by sample."""
    lines = np.random.default_rng(3).random(50)
    statistic = ratio(lines, np.ones(50))
    first, second = (with_intervals({"one": statistic, "two": statistic}, 50, 30) for _ in range(2))
    assert first == second
    assert first["one"] == first["two"]


def test_without_samples_there_is_no_interval() -> None:
    """A value that is not known better than that does not claim to be certain."""
    found = score(["a"], [["b"]], spaced=False, bootstrap=0, names=["line_error"])["line_error"]
    assert (found.value, found.low, found.high) == (100.0, None, None)


def test_intervals_of_odd_answers() -> None:
    """Answers that are empty or share nothing with their references: intervals all the same, around the value."""
    answers = ["", "x", "T AH K", "T"] * 5
    metrics = score(answers, [["T AH K AE T"], ["D"], ["T AH K"], ["T EH"]] * 5, spaced=True, bootstrap=100)
    for metric in metrics.values():
        assert metric.low is not None
        assert metric.high is not None
        assert metric.low - 1e-9 <= metric.value <= metric.high + 1e-9


@pytest.mark.parametrize(("name", "theirs"), [("bleu", BLEU), ("chrf", CHRF), ("ter", TER)])
def test_translation_metrics_are_sacrebleus(name: str, theirs: type) -> None:
    """Reference: sacrebleu's own score of the corpus and its signature, also with several references for some lines."""
    answers = ["the cat sat on the mat today", "a dog barked at the moon", "no"]
    references = [["the cat sat on a mat today"], ["a cat", "a dog barked at the big moon"], ["no"]]
    found = score(answers, references, spaced=False, bootstrap=0, names=[name])[name]
    streams = [[known[0] for known in references], [known[1] if len(known) > 1 else None for known in references]]
    scorer = theirs()
    assert found.value == pytest.approx(scorer.corpus_score(answers, streams).score)
    assert found.signature == scorer.get_signature().format()
    alone = theirs().corpus_score(answers, streams[:1]).score
    assert abs(found.value - alone) > 1


def test_likelihoods_by_hand() -> None:
    """All tokens together, not line by line: tokens of long lines count as much as those of short ones."""
    found = measure(texts(), ["perplexity", "token_accuracy", "loss"], 0)
    assert found["perplexity"].value == pytest.approx(1 / 0.9)
    assert found["loss"].value == pytest.approx(-math.log(0.9))
    assert found["token_accuracy"].value == pytest.approx(100 * 3 / 8)
    of_pairs = measure(pairs(), ["perplexity", "token_accuracy"], 0)
    assert of_pairs["token_accuracy"].value == pytest.approx(100 * 12 / 22)  # both references of the last source
    assert measure(labels(), ["loss"], 0)["loss"].value == pytest.approx(-math.log(0.9))


def test_likelihoods_belong_to_their_sources() -> None:
    """Pairs of one source need not stand together: its references are brought together before they are scored."""
    pairs_of = [Pair("a", "1", 1), Pair("b", "22", 2), Pair("a", "333", 3)]

    class Model:
        target = SimpleNamespace(kind="symbols")

        def forced(self, examples: list[Pair]) -> list[ForcedLine]:
            return [forced([0.5] * len(pair.target), 0) for pair in examples]

    found: Any = PairJudge("sentences", "sources").results(Model(), pairs_of)  # type: ignore[arg-type]
    assert found.sources == ["a", "b"]
    assert found.likelihood.tokens.tolist() == [4.0, 2.0]
    assert found.likelihood.log_p.tolist() == pytest.approx([4 * math.log(0.5), 2 * math.log(0.5)])


def test_perplexity_has_an_interval() -> None:
    rng = np.random.default_rng(0)
    given = [rng.uniform(0.1, 0.9, 5).tolist() for _ in range(200)]
    results = TextResults(["x"] * 200, [forced(line, 0) for line in given], "tokens")
    found = measure(results, ["perplexity", "loss"], 300)
    low, high = found["perplexity"].low, found["perplexity"].high
    assert low is not None
    assert high is not None
    assert low < found["perplexity"].value < high
    assert found["loss"].low == pytest.approx(math.log(low))
    assert found["perplexity"].value == pytest.approx(np.exp(-np.mean(np.log(np.concatenate(given)))))


def test_macro_f1_and_accuracy_are_sklearns() -> None:
    """Reference: scikit-learn; also with classes that nobody guesses. The wrong variant is accuracy."""
    from sklearn.metrics import accuracy_score, f1_score

    rng = np.random.default_rng(0)
    for classes in (2, 3, 7):
        truth = rng.integers(0, classes, 60)
        guess = np.where(rng.random(60) < 0.5, truth, rng.integers(0, max(1, classes - 1), 60))
        log_p = np.log(np.eye(classes)[guess] + 0.01)
        named = partial(LabelResults, ["x"] * 60, [str(number) for number in range(classes + 2)])
        found = measure(named(truth, log_p, "texts"), ["accuracy", "macro_f1"], 50)
        expected = 100 * f1_score(truth, guess, average="macro", zero_division=0)
        assert found["macro_f1"].value == pytest.approx(expected)
        assert found["accuracy"].value == pytest.approx(100 * accuracy_score(truth, guess))
        assert abs(found["accuracy"].value - expected) > 1e-3
