"""Constraints on search: length limits, forced prefixes, banned tokens, permitted outputs, repetitions.

Rules apply to the model's log-probabilities without renormalising them, so scores stay the model's own; with a penalty
for repetitions, beams are ranked by what it makes of them.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from clearhead.decoding.repetitions import Repetitions

Allowed = Callable[[int, list[int]], Collection[int] | None]
"""(number of the line, its tokens so far) → the tokens allowed next, perhaps including the end token; None for all."""


class Trie:
    """Restricts answers to given outputs: after each prefix, only tokens that continue one of them are allowed.

    Args:
        outputs: the permitted outputs, without the end token.
        eos: the end token.

    >>> trie = Trie([[5, 6], [5, 7, 8]], eos=2)
    >>> sorted(trie(0, [5])), sorted(trie(0, [5, 6])), sorted(trie(0, [9]))
    ([6, 7], [2], [])
    """

    def __init__(self, outputs: Iterable[Sequence[int]], eos: int) -> None:
        self._root: dict[int, Any] = {}
        for output in outputs:
            node = self._root
            for token in (*output, eos):
                node = node.setdefault(token, {})

    def __call__(self, _line: int, tokens: list[int]) -> Collection[int]:
        """Return the tokens that are allowed next."""
        node: Mapping[int, Any] = self._root
        for token in tokens:
            node = node.get(token, {})
        return node.keys()


@dataclass(frozen=True)
class Rules:
    """The constraints of one batch; without any, they cost nothing."""

    longest: Sequence[int]
    """The length limit of each line, without the end token."""
    shortest: Sequence[int] = ()
    """The fewest tokens of each line; empty for 0."""
    prefixes: Sequence[Sequence[int]] = ()
    """The tokens with which each line must begin; empty for none."""
    banned: Sequence[int] = ()
    """Tokens that are never generated."""
    allowed: Allowed | None = None
    """Returns the tokens allowed next; None for all."""
    repetitions: Repetitions | None = None
    """What may not come again, or is less probable if it does."""
    numbers: Sequence[int] = field(default=())
    """The number of each line, for ``allowed`` and for sampling; empty for 0, 1, 2 …"""

    def number(self, line: int) -> int:
        """The number of a line, which does not depend on the batch."""
        return self.numbers[line] if self.numbers else line

    @property
    def plain(self) -> bool:
        """Whether all tokens are always allowed."""
        return not (self.banned or self.allowed or self.repetitions or any(self.shortest) or any(self.prefixes))

    @property
    def weighs(self) -> bool:
        """Whether values change that are not forbidden."""
        return self.repetitions is not None and self.repetitions.penalty != 1.0

    @property
    def lenient(self) -> bool:
        """Whether some token is always allowed: at most single tokens are banned."""
        return not (self.look_back or any(self.shortest))

    @property
    def look_back(self) -> bool:
        """Whether the allowed tokens depend on the tokens so far, and not only on their number."""
        return self.allowed is not None or self.repetitions is not None or any(self.prefixes)

    def forbid(
        self, values: Tensor, lines: Sequence[int], length: int, written: Sequence[Sequence[list[int]]], eos: int
    ) -> None:
        """Set the values of tokens that are not allowed to −∞, in place.

        Args:
            values: log-probabilities or logits, (b, k, V).
            lines: the lines, as indices into the rules.
            length: the number of tokens so far.
            written: the tokens of each beam of each line; needed only if ``look_back``.
            eos: the end token.
        """
        # a token that must come next may come, also if it is banned elsewhere
        forced = self._forced(values, lines, length)
        if self.repetitions is not None:
            self.repetitions.apply(values, lines, written)
        if self.banned:
            values.index_fill_(2, self._banned, -torch.inf)
        if self.shortest:
            short = [row for row, line in enumerate(lines) if length < self.shortest[line]]
            values[short if len(short) < len(lines) else slice(None), :, eos] = -torch.inf
        if not self.look_back:
            return
        for row, line in enumerate(lines):
            if row in forced:
                token, kept = forced[row]
                values[row] = -torch.inf
                values[row, :, token : token + 1] = kept
                continue
            for beam, tokens in enumerate(written[row]):
                may = self._may(line, tokens)
                if may is not None:
                    inside = torch.tensor([token for token in may if 0 <= token < values.shape[2]], dtype=torch.long)
                    kept = values[row, beam, inside]
                    values[row, beam] = -torch.inf
                    values[row, beam, inside] = kept

    @cached_property
    def _banned(self) -> Tensor:
        return torch.tensor(self.banned)

    def _forced(self, values: Tensor, lines: Sequence[int], length: int) -> dict[int, tuple[int, Tensor]]:
        """Of each row whose next token is given, this token and its values, (k, 1); (k, 0) if there is none."""
        if not self.prefixes:
            return {}
        given = {
            row: self.prefixes[line][length] for row, line in enumerate(lines) if length < len(self.prefixes[line])
        }
        return {row: (token, values[row, :, token : token + 1].clone()) for row, token in given.items()}

    def _may(self, line: int, tokens: list[int]) -> Collection[int] | None:
        return None if self.allowed is None else self.allowed(self.number(line), list(tokens))
