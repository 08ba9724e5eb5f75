"""Interpolated modified Kneser–Ney (Chen & Goodman 1998), written from the formulas: what a language model must beat.

    p(w | h) = (a(h, w) − D(a)) / a(h, ·) + γ(h) · p(w | h′),   h′ = h without its first token

a is the raw count for the longest n-grams and for those that begin a line, and else the number of different tokens seen
before them; D(a) is one of three discounts for a = 1, 2, ≥ 3; γ(h) makes the sum 1. Below single tokens stands an even
share of the closed vocabulary: every token of the training lines, and the end of a line.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

Gram = tuple[str, ...]
BEGIN, END = "<s>", "</s>"


class KneserNey:
    """An n-gram model over lines of tokens."""

    def __init__(self, lines: Sequence[Sequence[str]], order: int = 5) -> None:
        self.order = order
        self.vocabulary = {END, *(token for line in lines for token in line)}
        counts = [Counter[Gram]() for _ in range(order + 1)]  # by length
        before: list[dict[Gram, set[str]]] = [defaultdict(set) for _ in range(order + 1)]
        for line in lines:
            tokens = [BEGIN, *line, END]
            for end in range(2, len(tokens) + 1):  # the first token to be said is the second
                for size in range(1, min(order, end) + 1):
                    gram = tuple(tokens[end - size : end])
                    counts[size][gram] += 1
                    if end > size:
                        before[size][gram].add(tokens[end - size - 1])
        for size in range(1, order):
            for gram in counts[size]:
                if gram[0] != BEGIN:
                    counts[size][gram] = len(before[size][gram])
        self._adjusted = counts
        self._discounts = [self._discount(Counter(found.values())) for found in self._adjusted]
        self._totals: Counter[Gram] = Counter()
        self._spared: dict[Gram, float] = defaultdict(float)
        for size, found in enumerate(self._adjusted):
            for gram, count in found.items():
                self._totals[gram[:-1]] += count
                self._spared[gram[:-1]] += self._discounts[size][min(count, 3)]

    @staticmethod
    def _discount(sizes: Counter[int]) -> tuple[float, float, float, float]:
        """D for counts of 0, 1, 2 and 3 or more; KenLM's where the counts of counts do not allow it."""
        if not all(sizes[count] for count in (1, 2, 3, 4)):
            return 0.0, 0.5, 1.0, 1.5
        share = sizes[1] / (sizes[1] + 2 * sizes[2])
        one, two, more = (count - (count + 1) * share * sizes[count + 1] / sizes[count] for count in (1, 2, 3))
        possible = 0 <= one <= 1 and 0 <= two <= 2 and 0 <= more <= 3
        return (0.0, one, two, more) if possible else (0.0, 0.5, 1.0, 1.5)

    def probability(self, token: str, history: Sequence[str]) -> float:
        """p(token | history); only the last tokens of the history count, and it begins with ``<s>``."""
        probability = 1 / len(self.vocabulary)
        for size in range(1, min(self.order, len(history) + 1) + 1):
            context = tuple(history[len(history) - size + 1 :])
            if total := self._totals[context]:
                count = self._adjusted[size].get((*context, token), 0)
                kept = max(0.0, count - self._discounts[size][min(count, 3)])
                probability = kept / total + self._spared[context] / total * probability
        return probability

    def perplexity(self, lines: Sequence[Sequence[str]]) -> float:
        """exp of the mean −log p of a token, ends of lines included."""
        total, tokens = 0.0, 0
        for line in lines:
            said = [BEGIN, *line, END]
            for place in range(1, len(said)):
                total -= math.log(self.probability(said[place], said[:place]))
                tokens += 1
        return math.exp(total / tokens)
