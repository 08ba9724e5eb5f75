"""Rules about what was there before: n-grams that do not come twice, sequences that never come, a penalty.

They are those of transformers' ``generate``, so that imported models answer as they do there: what the decoder has read
counts as written, which is its first token, or the prompt of a language model.

Shapes: b lines, k beams of a line, V entries of the vocabulary.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class Repetitions:
    """What the tokens before forbid, or make less probable; n-grams of 0 tokens and a penalty of 1 do nothing."""

    read: Sequence[Sequence[int]]
    """What the decoder has read before each answer: its first token, or the prompt."""
    sources: Sequence[Sequence[int]] = ()
    """The source of each line, for ``source_ngram``."""
    ngram: int = 0
    """No n-gram of so many tokens comes twice."""
    source_ngram: int = 0
    """No n-gram of so many tokens is one of the source."""
    sequences: Sequence[Sequence[int]] = ()
    """Sequences that are never written."""
    penalty: float = 1.0
    """Values of tokens that were there are divided by it if they are positive, else multiplied (Keskar et al. 2019)."""

    def apply(self, values: Tensor, lines: Sequence[int], written: Sequence[Sequence[list[int]]]) -> None:
        """Change the values of the next tokens, in place.

        Args:
            values: log-probabilities or logits, (b, k, V).
            lines: the lines, as indices.
            written: the tokens of each beam of each line.
        """
        for row, line in enumerate(lines):
            for beam, tokens in enumerate(written[row]):
                before = [*self.read[line], *tokens]
                here = values[row, beam]  # (V,)
                if self.penalty != 1.0:
                    seen = torch.tensor(sorted(set(before)))
                    found = here[seen]
                    here[seen] = torch.where(found < 0, found * self.penalty, found / self.penalty)
                banned = set(self._banned(line, before))
                if banned:
                    here[torch.tensor(sorted(banned))] = -torch.inf

    def _banned(self, line: int, before: list[int]) -> Iterator[int]:
        if self.ngram:
            yield from _following(before, self.ngram).get(_last(before, self.ngram - 1), ())
        if self.source_ngram:
            yield from self._of_sources[line].get(_last(before, self.source_ngram - 1), ())
        for *first, last in self.sequences:
            if len(first) < len(before) and _last(before, len(first)) == tuple(first):
                yield last

    @cached_property
    def _of_sources(self) -> list[dict[tuple[int, ...], set[int]]]:
        return [_following(source, self.source_ngram) for source in self.sources]


def _last(tokens: Sequence[int], count: int) -> tuple[int, ...]:
    return tuple(tokens[len(tokens) - count :]) if count <= len(tokens) else ()


def _following(tokens: Sequence[int], size: int) -> dict[tuple[int, ...], set[int]]:
    """Of all n-grams: what follows their first n − 1 tokens."""
    found: dict[tuple[int, ...], set[int]] = {}
    grams: Iterable[Sequence[int]] = (tokens[start : start + size] for start in range(len(tokens) - size + 1))
    for *first, last in grams:
        found.setdefault(tuple(first), set()).add(last)
    return found
