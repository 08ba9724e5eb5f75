"""Hiding tokens, for an encoder to fill in (Devlin et al. 2019): which ones, and what stands in their place."""

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clearhead.data.tokens import PAD
from clearhead.recipe import MaskingSpec

Row = NDArray[np.int64]


@dataclass(frozen=True)
class Masker:
    """Hides tokens of a line <s> … </s>."""

    spec: MaskingSpec
    mask: int
    """The id of <mask>, the last of the specials."""
    vocabulary: int
    """Number of tokens; random ones are drawn from those that are no specials."""

    def corrupted(self, line: Row, key: tuple[int, ...]) -> tuple[Row, Row]:
        """(what is read, what should be said): most chosen tokens are <mask>, some another token, some as they were.

        It follows from the line and ``key`` alone; what need not be said is <pad>.
        """
        rng = np.random.default_rng(key)
        chosen = self._chosen(len(line) - 2, rng)
        fate = rng.random(len(chosen))
        # an imported vocabulary may have <mask> as its last token
        first = self.mask + 1 if self.mask + 1 < self.vocabulary else 0
        other = rng.integers(first, self.vocabulary, len(chosen))
        inputs, labels = line.copy(), np.full_like(line, PAD)
        labels[chosen] = line[chosen]
        masked, random = self.spec.masked, self.spec.masked + self.spec.random
        inputs[chosen] = np.where(fate < masked, self.mask, np.where(fate < random, other, line[chosen]))
        return inputs, labels

    def hidden(self, line: Row) -> tuple[Row, Row]:
        """The same for scoring: every chosen token is <mask>, and which ones follows from the line itself."""
        rng = np.random.default_rng([0, zlib.crc32(line.astype("<i8").tobytes())])
        chosen = self._chosen(len(line) - 2, rng)
        inputs, labels = line.copy(), np.full_like(line, PAD)
        labels[chosen] = line[chosen]
        inputs[chosen] = self.mask
        return inputs, labels

    def _chosen(self, tokens: int, rng: np.random.Generator) -> Row:
        """Places of the tokens to hide: the share that the recipe names, at least one."""
        count = max(1, round(tokens * self.spec.share))
        return 1 + rng.choice(tokens, count, replace=False)
