"""The tree of a beam search: every hypothesis that lived, what it grew from, and what became of it.

A search records it only if it is handed one, for one line: see ``beam_search``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from clearhead.decoding.stepper import Hypothesis

Fate = Literal["continued", "finished", "stopped", "cut"]
"""What became of a hypothesis: it was extended; it ended; it reached the length limit; others were better."""
Candidate = tuple[float, int, int]
"""log p, the place of the parent among the beams of the step before, and the token."""


@dataclass(frozen=True)
class SearchNode:
    """A hypothesis at one step: its parent and one more token."""

    parent: int | None
    """The place of its parent in ``SearchTree.nodes``; None for a first token."""
    token: int
    log_probability: float
    """log p of all tokens so far, this one included."""
    score: float
    """log p divided by the length penalty at this length."""
    fate: Fate = "cut"
    rank: int | None = None
    """Its place in the result of the search, from 1; None if it is not there."""


@dataclass
class SearchTree:
    """The tree of one line, which grows with every step of the search."""

    nodes: list[SearchNode] = field(default_factory=list)
    """Parents come before their children; nodes of one step stand together, the most probable first."""
    _open: list[int | None] = field(default_factory=lambda: [None])
    """The nodes of the beams, in their order; None is the empty hypothesis."""

    def grow(self, going: Sequence[Candidate], ended: Sequence[Candidate], penalty: float) -> None:
        """Add a step: the candidates that continue, in the order of the new beams, and those that end."""
        for _, beam, _ in (*going, *ended):
            parent = self._open[beam]
            if parent is not None:
                self.nodes[parent] = replace(self.nodes[parent], fate="continued")
        found = [(*one, index) for index, one in enumerate(going)] + [(*one, None) for one in ended]
        beams: dict[int, int] = {}
        for value, beam, token, index in sorted(found, key=lambda one: -one[0]):
            if index is not None:
                beams[index] = len(self.nodes)
            fate: Fate = "finished" if index is None else "cut"  # until it is extended
            self.nodes.append(SearchNode(self._open[beam], token, value, value / penalty, fate))
        self._open = [beams[index] for index in range(len(going))]

    def close(self, hypotheses: Sequence[Hypothesis]) -> None:
        """Note which nodes are the result of the search, the best first."""
        ranks = {tuple(one.tokens): rank for rank, one in enumerate(hypotheses, start=1)}
        stopped = {tuple(one.tokens) for one in hypotheses if not one.finished}
        for place, node in enumerate(self.nodes):
            path = tuple(self.path(place))
            if node.fate == "finished":
                self.nodes[place] = replace(node, rank=ranks.get(path[:-1]))
            elif path in stopped:
                self.nodes[place] = replace(node, fate="stopped", rank=ranks[path])

    def path(self, place: int) -> list[int]:
        """The tokens from the first to this node's."""
        tokens: list[int] = []
        step: int | None = place
        while step is not None:
            tokens.append(self.nodes[step].token)
            step = self.nodes[step].parent
        return tokens[::-1]
