"""Greedy search and sampling: one token after the other, one way to write each line.

Shapes: b lines, V tokens of the vocabulary.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from clearhead.decoding.best import best_place
from clearhead.decoding.rules import Rules
from clearhead.decoding.stepper import Hypothesis, Stepper

Pick = Callable[[Tensor, list[int]], Tensor]
"""From the values of every token, (b, V), and the numbers of the lines, to a token for each line, (b,)."""


def greedy(
    stepper: Stepper, rules: Rules, *, first: Sequence[int], eos: int, scored: bool = False, pick: Pick | None = None
) -> list[Hypothesis]:
    """The answer to each line: always the most probable token, or the one that ``pick`` draws.

    A line that is finished leaves the batch at once. A line of which no token may come next ends as well.
    """
    answers: list[Hypothesis] = [Hypothesis([], 0.0, 0.0, finished=False)] * len(first)
    alive = torch.arange(len(first))
    limits = torch.tensor(list(rules.longest))
    written = torch.empty(len(first), 0, dtype=torch.long)
    total = torch.zeros(len(first), dtype=torch.float64)
    ids = torch.tensor(first)[:, None]
    while len(alive):
        values = stepper.step(ids)[:, 0].cpu()  # (b, V)
        if scored:
            values = values.log_softmax(-1)
        if not rules.plain:
            before = [[row] for row in written.tolist()] if rules.look_back else []
            rules.forbid(values[:, None], alive.tolist(), written.shape[1], before, eos)
        tokens = best_place(values) if pick is None else pick(values, [rules.number(line) for line in alive.tolist()])
        chosen = values.gather(1, tokens[:, None])[:, 0]
        stuck = chosen == -torch.inf  # nothing may come next
        ended = (tokens == eos) & ~stuck
        if scored:
            total += chosen.double().masked_fill(stuck, 0.0)
        written = torch.cat((written, tokens[:, None]), dim=1)
        done = ended | stuck | (written.shape[1] >= limits)
        if done.any():
            for row in done.nonzero()[:, 0].tolist():
                over = bool(ended[row] or stuck[row])
                log_p = float(total[row]) if scored else float("nan")
                answer = written[row, : written.shape[1] - over].tolist()
                answers[int(alive[row])] = Hypothesis(answer, log_p, log_p, finished=bool(ended[row]))
            rows = (~done).nonzero()[:, 0]
            alive, limits, written, total = alive[rows], limits[rows], written[rows], total[rows]
            tokens = tokens[rows]
            if len(alive):
                stepper.keep(rows)
        ids = tokens[:, None]
    return answers


def each_token(
    stepper: Stepper, rules: Rules, *, first: Sequence[int], eos: int, pick: Pick | None = None
) -> Iterator[int]:
    """The tokens of the only line, each as soon as it is known."""
    written: list[int] = []
    token = first[0]
    while len(written) < rules.longest[0]:
        values = stepper.step(torch.tensor([[token]]))[:, 0].cpu()  # (1, V)
        if not rules.plain:
            rules.forbid(values[:, None], [0], len(written), [[written]], eos)
        token = int(best_place(values) if pick is None else pick(values, [rules.number(0)]))
        if token == eos or values[0, token] == -torch.inf:
            return
        written.append(token)
        yield token


@dataclass
class Sampler:
    """Draws the next token from the model's own distribution, or from its likely part.

    Each line has random numbers of its own, which follow from the seed and the line's number alone: what is drawn does
    not depend on the other lines of the batch.
    """

    seed: int = 0
    temperature: float = 1.0
    """Logits are divided by it: below 1 the likely becomes likelier."""
    top_k: int | None = None
    """Only the k most probable tokens."""
    top_p: float | None = None
    """Only the most probable tokens that together have this probability."""

    def __post_init__(self) -> None:
        self._random: dict[int, np.random.Generator] = {}

    def __call__(self, values: Tensor, numbers: list[int]) -> Tensor:
        """A token for each line; values are logits or log-probabilities."""
        ordered, order = (values.double() / self.temperature).sort(dim=-1, descending=True, stable=True)
        probabilities = ordered.softmax(-1)
        if self.top_k is not None:
            probabilities[:, self.top_k :] = 0.0
        before = probabilities.cumsum(-1) - probabilities
        if self.top_p is not None:
            # of the tokens that top_k has left
            probabilities[before >= self.top_p * probabilities.sum(-1, keepdim=True)] = 0.0
        total = probabilities.cumsum(-1)
        draws = torch.tensor([[self._draw(number)] for number in numbers], dtype=torch.float64)
        place = torch.searchsorted(total, draws * total[:, -1:], right=True).clamp(max=values.shape[-1] - 1)
        # a draw that rounding pushes behind the last possible token takes that one
        last = (probabilities > 0).sum(-1, keepdim=True) - 1
        return order.gather(1, torch.minimum(place, last.clamp(min=0)))[:, 0]

    def _draw(self, number: int) -> float:
        if number not in self._random:
            self._random[number] = np.random.default_rng([self.seed, number])
        return float(self._random[number].random())
