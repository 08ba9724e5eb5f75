"""Metrics against hand-made numbers and sacrebleu; several references count."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sklearn.metrics import f1_score

from clearhead.evaluation import edit_distance, line_errors, macro_f1, score, symbol_errors

short = st.text("abc", max_size=6)


@given(short, short, short)
def test_edit_distance_is_a_distance(a: str, b: str, c: str) -> None:
    assert edit_distance(a, b) == edit_distance(b, a)
    assert (edit_distance(a, b) == 0) == (a == b)
    assert edit_distance(a, c) <= edit_distance(a, b) + edit_distance(b, c)
    assert edit_distance(a, b) >= abs(len(a) - len(b))


def test_edit_distance_by_hand() -> None:
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance(["AH", "B", "K"], ["AH", "K"]) == 1


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
    rng = np.random.default_rng(0)

    def width(lines: int) -> float:
        answers = ["a" if right else "b" for right in rng.random(lines) < 0.7]
        metric = score(answers, [["a"]] * lines, spaced=False, bootstrap=300, names=["line_error"])["line_error"]
        assert metric.low < metric.value < metric.high
        return metric.high - metric.low

    assert width(2000) < width(100) / 2


def test_intervals_of_odd_answers() -> None:
    """Answers that are empty or share nothing with their references: intervals all the same, around the value."""
    answers = ["", "x", "T AH K", "T"] * 5
    metrics = score(answers, [["T AH K AE T"], ["D"], ["T AH K"], ["T EH"]] * 5, spaced=True, bootstrap=100)
    for metric in metrics.values():
        assert metric.low - 1e-9 <= metric.value <= metric.high + 1e-9


def test_bleu_is_sacrebleus_and_carries_its_signature() -> None:
    answers = ["the cat sat on the mat today", "a dog barked at the moon"]
    references = [["the cat sat on a mat today"], ["a dog barked at the big moon"]]
    metrics = score(answers, references, spaced=False, bootstrap=0)
    expected = BLEU().corpus_score(answers, [[known[0] for known in references]])
    assert metrics["bleu"].value == pytest.approx(expected.score)
    assert "tok:13a" in metrics["bleu"].signature
    assert set(metrics) == {"line_error", "symbol_error", "bleu", "chrf", "ter"}


def test_macro_f1_is_sklearns() -> None:
    """Reference: scikit-learn; also with classes that nobody guesses. The wrong variant is accuracy."""
    rng = np.random.default_rng(0)
    for classes in (2, 3, 7):
        truth = rng.integers(0, classes, 60)
        guess = np.where(rng.random(60) < 0.5, truth, rng.integers(0, max(1, classes - 1), 60))
        expected = 100 * f1_score(truth, guess, average="macro", zero_division=0)
        assert macro_f1(truth, guess) == pytest.approx(expected)
        assert abs(100 * float((truth == guess).mean()) - expected) > 1e-3
