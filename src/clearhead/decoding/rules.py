"""Which tokens may come next: lengths, forced beginnings, forbidden tokens, permitted outputs.

Rules forbid tokens after the model has spoken: a score stays the model's own log-probability.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

Allowed = Callable[[int, list[int]], Collection[int] | None]
"""(number of the line, its tokens so far) → the tokens that may come next, the end token among them; None for all."""


class Trie:
    """The outputs that are permitted, as an ``Allowed``: after a beginning, only what continues one of them.

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
        """The tokens that may follow."""
        node: Mapping[int, Any] = self._root
        for token in tokens:
            node = node.get(token, {})
        return node.keys()


@dataclass(frozen=True)
class Rules:
    """What search must obey; without any, it costs nothing."""

    longest: Sequence[int]
    """The most tokens of each line, the end not counted; a line that reaches it ends there."""
    shortest: Sequence[int] = ()
    """The fewest tokens of each line; no lines: 0."""
    prefixes: Sequence[Sequence[int]] = ()
    """Tokens that each line must begin with; no lines: none."""
    banned: Sequence[int] = ()
    """Tokens that are never written."""
    allowed: Allowed | None = None
    numbers: Sequence[int] = field(default=())
    """What ``allowed`` and sampling call each line; no lines: 0, 1, 2 …"""

    def number(self, line: int) -> int:
        """The name of a line, whatever batch it is in."""
        return self.numbers[line] if self.numbers else line

    @property
    def plain(self) -> bool:
        """Whether every token may always come."""
        return not (self.banned or self.allowed or any(self.shortest) or any(self.prefixes))

    @property
    def lenient(self) -> bool:
        """Whether something may always come next: at most single tokens are banned."""
        return not (self.look_back or any(self.shortest))

    @property
    def look_back(self) -> bool:
        """Whether what may come next depends on the tokens before, not only on how many they are."""
        return self.allowed is not None or any(self.prefixes)

    def forbid(
        self, values: Tensor, lines: Sequence[int], length: int, written: Sequence[Sequence[list[int]]], eos: int
    ) -> None:
        """Set to −∞, in place, what may not come next: values (b, k, V) of these lines.

        Their beams have ``length`` tokens, which are ``written``; they are only needed if the rules look back.
        """
        if self.banned:
            values.index_fill_(2, self._banned, -torch.inf)
        if self.shortest:
            short = [row for row, line in enumerate(lines) if length < self.shortest[line]]
            values[short if len(short) < len(lines) else slice(None), :, eos] = -torch.inf
        if not self.look_back:
            return
        for row, line in enumerate(lines):
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

    def _may(self, line: int, tokens: list[int]) -> Collection[int] | None:
        if self.prefixes and len(tokens) < len(self.prefixes[line]):
            return (self.prefixes[line][len(tokens)],)
        return None if self.allowed is None else self.allowed(self.number(line), list(tokens))
