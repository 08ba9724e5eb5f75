"""What heads attend to, by where it stands: the role of every head with a score, and how much two heads overlap.

    previous, next   the token before, or after, its own
    same             its own token
    first, last      the first token, or the last one of what it reads
    induction        the token after an earlier one that is equal to its own (Olsson et al. 2022)
    diagonal         cross-attention that moves on in the source as the answer moves on
    broad            none of these: its weights are spread

All scores are shares of the attention weights, averaged over queries, except two: ``diagonal`` is the correlation of
the places of query and key when pairs are drawn by their weights, and ``broad`` the entropy of the weights over that of
equal weights.

Shapes: b lines, h heads, n queries, m keys.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

ROLES = ("previous", "next", "same", "first", "last", "induction", "diagonal", "broad")
CLEAR = 0.3
"""How far above chance the score of a role must be, as a share of what is possible; other heads are broad."""


@dataclass(frozen=True)
class Reading:
    """What the queries of one attention are and what they can see.

    Args:
        queries: tokens that are no padding among the queries of each line, (b,).
        keys: the same for the keys, (b,).
        causal: whether no query sees a later key.
        cross: whether queries and keys are two sequences.
        ids: the tokens, (b, n), if queries and keys are one sequence of text; needed for ``induction``.
    """

    queries: Int[Tensor, "b"]
    keys: Int[Tensor, "b"]
    causal: bool = False
    cross: bool = False
    ids: Int[Tensor, "b n"] | None = None


class RoleSums:
    """Adds up the scores of heads over batches.

    Args:
        heads: number of heads, h.
    """

    def __init__(self, heads: int) -> None:
        self.sums = {role: torch.zeros(heads, dtype=torch.float64) for role in ROLES}
        self.counts = dict.fromkeys(ROLES, 0.0)
        self.chances = dict.fromkeys(ROLES, 0.0)

    def add(self, weights: Float[Tensor, "b h n m"], reading: Reading) -> None:
        """Add the weights of a batch; those of padding do not count."""
        b, _, n, m = weights.shape
        i, j = torch.arange(n)[:, None], torch.arange(m)[None]
        seen = (i < reading.queries[:, None, None]) & (j < reading.keys[:, None, None])  # (b, n, m)
        if reading.causal:
            seen = seen & (j <= i)
        choices = seen.sum(-1)  # (b, n)
        asked = choices > 1  # a query with a single key has no choice
        last = (j == reading.keys[:, None, None] - 1).expand(b, n, m)
        cases: dict[str, Tensor] = {"first": (j == 0).expand(b, n, m)}
        if not reading.causal:
            cases["last"] = last
        if not reading.cross:
            cases |= {"previous": (j == i - 1).expand(b, n, m), "same": (j == i).expand(b, n, m)}
            if not reading.causal:
                cases["next"] = (j == i + 1).expand(b, n, m)
            if reading.ids is not None:
                cases["induction"] = _after_equals(reading.ids, i, j)
        for role, wanted in cases.items():
            self._add_share(role, weights, wanted & seen, asked, choices)
        if reading.cross:
            self._add_diagonal(weights, seen)
        entropy = -torch.special.xlogy(weights, weights).sum(-1)  # (b, h, n)
        relative = entropy / choices.clamp(min=2).log()[:, None]
        self.sums["broad"] += (relative * asked[:, None]).sum((0, 2)).double()
        self.counts["broad"] += float(asked.sum())

    def _add_share(
        self,
        role: str,
        weights: Float[Tensor, "b h n m"],
        wanted: Bool[Tensor, "b n m"],
        asked: Bool[Tensor, "b n"],
        choices: Int[Tensor, "b n"],
    ) -> None:
        there = wanted.any(-1) & asked  # only queries for which there is such a key
        share = (weights * wanted[:, None]).sum(-1) * there[:, None]  # (b, h, n)
        self.sums[role] += share.sum((0, 2)).double()
        self.counts[role] += float(there.sum())
        self.chances[role] += float((wanted.sum(-1) / choices.clamp(min=1) * there).sum())

    def _add_diagonal(self, weights: Float[Tensor, "b h n m"], seen: Bool[Tensor, "b n m"]) -> None:
        long = (seen.any(-1).sum(-1) > 1) & (seen.any(1).sum(-1) > 1)  # (b,)
        joint = weights * seen[:, None]
        joint = joint / joint.sum((-1, -2), keepdim=True).clamp(min=1e-12)  # (b, h, n, m)
        i, j = (torch.arange(size, dtype=weights.dtype) for size in joint.shape[-2:])
        by_i, by_j = joint.sum(-1), joint.sum(-2)
        mean_i, mean_j = by_i @ i, by_j @ j  # (b, h)
        both = torch.einsum("bhnm,n,m->bh", joint, i, j) - mean_i * mean_j
        spread = (by_i @ i.square() - mean_i.square()) * (by_j @ j.square() - mean_j.square())
        correlation = both / spread.clamp(min=1e-12).sqrt()
        correlation = torch.where(spread > 1e-9, correlation, 0.0)
        self.sums["diagonal"] += (correlation * long[:, None]).sum(0).double()
        self.counts["diagonal"] += float(long.sum())

    def scores(self) -> list[dict[str, float]]:
        """The mean score of every role, for each head; roles that never occurred are left out."""
        means = {role: (self.sums[role] / count).tolist() for role, count in self.counts.items() if count}
        return [{role: values[head] for role, values in means.items()} for head in range(len(self.sums["broad"]))]

    def roles(self) -> list[tuple[str, float]]:
        """The role of each head and its score: the one that is furthest above chance, or ``broad``."""
        chances = {role: self.chances[role] / count for role, count in self.counts.items() if count}
        found = []
        for scores in self.scores():
            above = {
                role: (score - chances[role]) / max(1 - chances[role], 1e-9)
                for role, score in scores.items()
                if role != "broad"
            }
            best = max(above, key=above.__getitem__, default="broad")
            role = best if above.get(best, 0.0) >= CLEAR else "broad"
            found.append((role, scores.get(role, math.nan)))
        return found


def _after_equals(ids: Int[Tensor, "b n"], i: Int[Tensor, "n 1"], j: Int[Tensor, "1 m"]) -> Bool[Tensor, "b n m"]:
    """Where key j follows an earlier token that is equal to query i."""
    equal = ids[:, :, None] == ids[:, None]  # (b, n, m): query i and key j
    before = torch.zeros_like(equal)
    before[..., 1:] = equal[..., :-1]  # query i and the token before key j
    return before & (j < i)


class OverlapSums:
    """Adds up how much the heads of one stack overlap: Σ_j √(α_ij β_ij), the Bhattacharyya coefficient.

    It is 1 for heads with the same weights and 0 for heads that never look at the same token.

    Args:
        heads: number of heads of all layers, h.
    """

    def __init__(self, heads: int) -> None:
        self.sums = torch.zeros(heads, heads, dtype=torch.float64)
        self.count = 0.0

    def add(self, weights: Float[Tensor, "b h n m"], queries: Int[Tensor, "b"]) -> None:
        """Add the weights of a batch, all heads of the stack along one dimension."""
        real = torch.arange(weights.shape[2]) < queries[:, None]  # (b, n)
        roots = weights.clamp(min=0).sqrt() * real[:, None, :, None]
        flat = roots.transpose(0, 1).flatten(1)  # (h, b·n·m)
        self.sums += (flat @ flat.T).double()
        self.count += float(real.sum())

    def values(self) -> Float[Tensor, "h h"]:
        """The mean over all queries."""
        return self.sums / max(self.count, 1.0)
