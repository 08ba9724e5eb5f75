"""The table of n-grams against Kneser–Ney written as loops over dictionaries (benchmarks/kneser_ney.py)."""

import math
import random

import numpy as np
import pytest
from benchmarks.kneser_ney import KneserNey

from clearhead.joint import NgramTable, count_ngrams
from clearhead.joint.kneser_ney import END, FIRST

NEVER = 99
"""A length that no n-gram has: none is left out."""


def lines_of(count: int, seed: int = 1) -> list[list[int]]:
    """Lines in which some n-grams are frequent and many are rare."""
    draw = random.Random(0)
    words = [[FIRST + int(30 * draw.random() ** 3) for _ in range(draw.randrange(1, 5))] for _ in range(40)]
    draw = random.Random(seed)
    lengths = (draw.randrange(4) for _ in range(count))
    return [[token for _ in range(length) for token in words[int(40 * draw.random() ** 2)]] for length in lengths]


def vocabulary_of(lines: list[list[int]]) -> int:
    return 1 + max(token for line in lines for token in line)


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_lines_are_as_probable_as_by_loops(order: int) -> None:
    lines, new = lines_of(300), lines_of(60, seed=2)
    used = sorted({token for line in lines for token in line})  # the reference knows no others
    lines, new = ([[used.index(t) + FIRST for t in line if t in used] for line in part] for part in (lines, new))
    table = count_ngrams(lines, order=order, vocabulary=vocabulary_of(lines), rare_from=NEVER)
    reference = KneserNey([[str(token) for token in line] for line in lines], order)
    for line, found in zip(new, table.score(new), strict=True):
        said = ["<s>", *map(str, line), "</s>"]
        expected = sum(math.log(reference.probability(said[at], said[:at])) for at in range(1, len(said)))
        assert found == pytest.approx(expected, abs=1e-9)
    wrong = count_ngrams(lines[1:], order=order, vocabulary=vocabulary_of(lines), rare_from=NEVER)
    assert not np.allclose(wrong.score(new), table.score(new), atol=1e-9)


@pytest.mark.parametrize("rare_from", [2, 3, NEVER])
def test_what_follows_any_history_sums_to_1(rare_from: int) -> None:
    """Also where rare n-grams were left out: what they had goes to shorter ones."""
    lines = lines_of(200)
    vocabulary = vocabulary_of(lines)
    table = count_ngrams(lines, order=4, vocabulary=vocabulary, rare_from=rare_from)
    state = np.array([table.begin])
    for token in [*lines[0], *lines[1][:2], FIRST]:
        tokens = np.arange(1, vocabulary)  # all but the beginning
        log_p, _ = table.log_probabilities(np.repeat(state, len(tokens)), tokens)
        assert np.exp(log_p).sum() == pytest.approx(1.0, abs=1e-9)
        _, state = table.log_probabilities(state, np.array([token]))


def test_rare_n_grams_are_left_out_and_nothing_else() -> None:
    lines = lines_of(300)
    sizes = {
        rare: len(count_ngrams(lines, order=5, vocabulary=vocabulary_of(lines), rare_from=rare).tokens)
        for rare in (2, 4, NEVER)
    }
    assert sizes[2] < sizes[4] < sizes[NEVER]


def test_a_table_is_its_four_arrays() -> None:
    lines = lines_of(100)
    table = count_ngrams(lines, order=3, vocabulary=vocabulary_of(lines))
    again = NgramTable(table.vocabulary, table.tokens, table.followers, table.log_p, table.log_backoff)
    assert np.array_equal(again.score(lines), table.score(lines))
    assert table.followers.sum() == len(table.tokens) - 1
    log_p, _ = table.log_probabilities(np.array([table.begin]), np.array([END]))
    assert np.isfinite(log_p).all()
