"""What a model did with examples: everything that metrics are computed from.

Each part is computed once, when the first metric asks for it: who measures perplexity alone waits for no answers.

Shapes: n lines, c classes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from clearhead.evaluation.comparing import References, line_errors, symbol_errors
from clearhead.evaluation.lines import ScoredLine
from clearhead.predictor import ForcedLine

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Likelihood:
    """How probable a model finds what should have been said.

    Args:
        log_p: log p of all tokens of a line that count, (n,).
        tokens: How many these are, (n,).
        right: How many of them are the most probable ones, (n,).
    """

    log_p: Floats
    tokens: Floats
    right: Floats


class Results(ABC):
    """What a model did with examples.

    Args:
        size: Number of lines, n: what bootstrap samples are drawn from.
        counts: How much was scored, by name, the lines first.
    """

    def __init__(self, size: int, counts: Mapping[str, int]) -> None:
        self.size, self.counts = size, dict(counts)

    @cached_property
    @abstractmethod
    def likelihood(self) -> Likelihood:
        """How probable the model finds what should have been said."""

    @abstractmethod
    def lines(self) -> list[ScoredLine]:
        """Each line with its error, from what has been computed so far."""


class PairResults(Results):
    """Answers to sources beside their references, and the likelihood of the references.

    Args:
        sources: Each source once.
        references: For each source, all its references.
        answer: Answers all sources.
        force: The likelihood of each reference, source by source; None if only answers are known.
        spaced: Whether symbols stand between spaces; otherwise they are characters.
    """

    def __init__(
        self,
        sources: Sequence[str],
        references: References,
        answer: Callable[[], Sequence[str]],
        force: Callable[[], Sequence[ForcedLine]] | None,
        *,
        spaced: bool,
    ) -> None:
        super().__init__(len(sources), {"sources": len(sources), "references": sum(map(len, references))})
        self.sources, self.references, self.spaced = sources, references, spaced
        self._answer, self._force = answer, force

    @cached_property
    def answers(self) -> Sequence[str]:
        """The answer to each source, decoded as the recipe says."""
        return self._answer()

    @cached_property
    def line_errors(self) -> Floats:
        """1 for each answer that equals none of its references, (n,)."""
        return line_errors(self.answers, self.references)

    @cached_property
    def symbol_errors(self) -> Floats:
        """(edit distance to the closest reference, its length) for each answer, (n, 2)."""
        return symbol_errors(self.answers, self.references, spaced=self.spaced)

    @cached_property
    def _forced(self) -> Sequence[ForcedLine]:
        if self._force is None:
            raise TypeError("these are answers without a model: they have no likelihood")
        return self._force()

    @property
    def _owners(self) -> NDArray[np.int64]:
        """The number of the source of each reference."""
        return np.repeat(np.arange(self.size), [len(known) for known in self.references])

    @cached_property
    def likelihood(self) -> Likelihood:
        """Of all references of a source together, with the true tokens before each one fed in (L0.1)."""
        found, owners = _likelihood(self._forced), self._owners

        def by_source(values: Floats) -> Floats:
            return np.bincount(owners, weights=values, minlength=self.size).astype(np.float64)

        return Likelihood(by_source(found.log_p), by_source(found.tokens), by_source(found.right))

    def lines(self) -> list[ScoredLine]:
        """Sources with their answers; an error is the edit distance to the closest reference over its length.

        None are given if no metric asked for answers.
        """
        if "answers" not in vars(self):
            return []
        best: list[float | None] = [None] * self.size
        if "_forced" in vars(self):
            most = np.full(self.size, -np.inf)
            np.maximum.at(most, self._owners, _likelihood(self._forced).log_p)
            best = most.tolist()
        errors = (self.symbol_errors[:, 0] / np.maximum(1, self.symbol_errors[:, 1])).tolist()
        columns = (self.sources, self.answers, self.references, self.line_errors.tolist(), errors, best)
        return [
            ScoredLine(number, source, answer, tuple(known), not wrong, error, log_p)
            for number, (source, answer, known, wrong, error, log_p) in enumerate(zip(*columns, strict=True))
        ]


class TextResults(Results):
    """The likelihood of lines of text: of all tokens, the end among them (lm), or of hidden ones (encoder).

    Args:
        texts: The lines.
        forced: The likelihood of each.
        counted: What the tokens that count are called: ``tokens`` or ``hidden_tokens``.
    """

    def __init__(self, texts: Sequence[str], forced: Sequence[ForcedLine], counted: str) -> None:
        tokens = sum(len(line.log_probabilities) for line in forced)
        super().__init__(len(texts), {"lines": len(texts), counted: tokens})
        self.texts, self._forced = texts, forced

    @cached_property
    def likelihood(self) -> Likelihood:
        """Of a line."""
        return _likelihood(self._forced)

    def lines(self) -> list[ScoredLine]:
        """Texts, which have no answers; an error is the mean −log p of a token."""
        log_p, tokens = self.likelihood.log_p, np.maximum(1, self.likelihood.tokens)
        rows = zip(self.texts, (-log_p / tokens).tolist(), log_p.tolist(), strict=True)
        return [ScoredLine(number, text, None, (), None, *row) for number, (text, *row) in enumerate(rows)]


class LabelResults(Results):
    """Labels of texts or images beside the right ones.

    Args:
        texts: The texts, or images as numbers.
        labels: What the classes are called, (c).
        truth: The class of each, (n,).
        log_p: log p of every class, (n, c).
        counted: What the texts are called: ``texts`` or ``pictures``.
    """

    def __init__(
        self, texts: Sequence[str], labels: Sequence[str], truth: NDArray[np.int64], log_p: Floats, counted: str
    ) -> None:
        super().__init__(len(texts), {counted: len(texts), "classes": len(labels)})
        self.texts, self.labels, self.truth, self.log_p = texts, labels, truth, log_p
        self.guess = log_p.argmax(1)  # (n,)

    @cached_property
    def likelihood(self) -> Likelihood:
        """Of the right label, which counts as one token."""
        log_p = self.log_p[np.arange(self.size), self.truth]
        return Likelihood(log_p, np.ones(self.size), (self.truth == self.guess).astype(np.float64))

    def lines(self) -> list[ScoredLine]:
        """Texts with the label that they were given; an error is 1 − p of the right label."""
        log_p = self.likelihood.log_p
        columns = (self.texts, self.guess.tolist(), self.truth.tolist(), (1 - np.exp(log_p)).tolist(), log_p.tolist())
        return [
            ScoredLine(number, text, self.labels[guess], (self.labels[truth],), guess == truth, error, value)
            for number, (text, guess, truth, error, value) in enumerate(zip(*columns, strict=True))
        ]


def _likelihood(lines: Sequence[ForcedLine]) -> Likelihood:
    log_p = [line.log_probability for line in lines]
    tokens, right = [len(line.log_probabilities) for line in lines], [line.right for line in lines]
    return Likelihood(np.array(log_p, float), np.array(tokens, float), np.array(right, float))
