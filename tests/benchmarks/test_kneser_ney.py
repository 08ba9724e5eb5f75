"""The n-gram model that a language model is compared with: it sums to one, and is what the formulas say."""

import math
import random
from collections import Counter

import pytest
from benchmarks.kneser_ney import BEGIN, END, KneserNey


def lines_of(count: int, seed: int) -> list[list[str]]:
    rng = random.Random(seed)
    return [["a", *rng.choices("bcdefgh", [20, 9, 5, 3, 2, 1, 1], k=rng.randint(1, 6))] for _ in range(count)]


def test_probabilities_sum_to_one_after_every_history() -> None:
    model = KneserNey(lines_of(80, 0), order=4)
    for history in ([BEGIN], [BEGIN, "a"], [BEGIN, "a", "b", "c"], [BEGIN, *"abcdh"], [BEGIN, *"hhhhh"], [BEGIN, "zz"]):
        assert sum(model.probability(token, history) for token in model.vocabulary) == pytest.approx(1)


def test_two_tokens_are_as_the_paper_has_them() -> None:
    """Reference: order 2 written out (Chen & Goodman 1998, 4.1.6), with counts taken from strings.

    The wrong variant takes raw counts for single tokens: how often they occur, not after how many different ones.
    """
    lines = lines_of(60, 1)
    pairs = Counter((left, right) for line in lines for left, right in zip([BEGIN, *line], [*line, END], strict=True))
    after: Counter[str] = Counter(right for _, right in pairs)
    raw: Counter[str] = Counter(token for line in lines for token in [*line, END])

    def discounts(counts: Counter[int]) -> list[float]:
        if not all(counts[n] for n in (1, 2, 3, 4)):
            return [0, 0.5, 1.0, 1.5]
        y = counts[1] / (counts[1] + 2 * counts[2])
        return [0] + [n - (n + 1) * y * counts[n + 1] / counts[n] for n in (1, 2, 3)]

    def expected(token: str, left: str, single: Counter[str]) -> float:
        sizes = discounts(Counter(pairs.values()))
        row = {right: count for (first, right), count in pairs.items() if first == left}
        total = sum(row.values())
        gamma = sum(sizes[min(count, 3)] for count in row.values()) / total
        kept = max(0.0, row.get(token, 0) - sizes[min(row.get(token, 0), 3)]) / total
        usual = discounts(Counter(single.values()))
        left_over = sum(usual[min(count, 3)] for count in single.values()) / single.total()
        alone = (single[token] - usual[min(single[token], 3)]) / single.total() + left_over / len(single)
        return kept + gamma * alone

    model = KneserNey(lines, order=2)
    wrong = 0
    for left in (BEGIN, *"abcd"):
        for token in (*"abcdefgh", END):
            history = [BEGIN] if left == BEGIN else [BEGIN, left]
            found = model.probability(token, history)
            assert found == pytest.approx(expected(token, left, after))
            wrong += abs(found - expected(token, left, raw)) > 1e-4
    assert wrong > 10


def test_longer_histories_help_and_perplexity_is_by_token() -> None:
    """Lines that repeat themselves after five tokens: the longer the n-gram, the lower; ends count."""
    rng = random.Random(3)
    lines = [list("abcde"[rng.randrange(5) :] + "abcab" * rng.randint(0, 2)) for _ in range(300)]
    values = [KneserNey(lines[:250], order).perplexity(lines[250:]) for order in (1, 2, 3, 5)]
    assert values == sorted(values, reverse=True)
    model = KneserNey(lines, 3)
    first, end = model.probability("a", [BEGIN]), model.probability(END, [BEGIN, "a"])
    assert model.perplexity([["a"]]) == pytest.approx(math.exp(-(math.log(first) + math.log(end)) / 2))
