"""Greedy search and sampling: one hypothesis for each line.

Shapes: b lines, V entries of the vocabulary.
"""

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from clearhead.decoding.best import best_place
from clearhead.decoding.rules import Rules
from clearhead.decoding.stepper import Hypothesis, Stepper

Pick = Callable[[Tensor, list[int]], Tensor]
"""(logits (b, V), numbers of the lines) → a token for each line, (b,)."""


def greedy(
    stepper: Stepper, rules: Rules, *, first: Sequence[int], eos: int, scored: bool = False, pick: Pick | None = None
) -> list[Hypothesis]:
    """Return one hypothesis for each line: always the most probable token, or the one that ``pick`` returns.

    Finished lines leave the batch at once. A line for which no token is allowed ends as well.

    Args:
        stepper: the model, fed token by token.
        rules: lengths, and which tokens are allowed.
        first: the first token to feed, for each line.
        eos: the end token.
        scored: whether log-probabilities are computed; otherwise they are NaN, and the search is a little faster.
        pick: chooses the next token, such as a ``Sampler``. Default: the most probable one.
    """
    answers: list[Hypothesis] = [Hypothesis([], 0.0, 0.0, finished=False)] * len(first)
    written: list[list[int]] = [[] for _ in first]
    totals = [0.0] * len(first)
    alive = list(range(len(first)))
    ids = torch.tensor(first)[:, None]
    length = 0
    while alive:
        values = stepper.step(ids)[:, 0].cpu()  # (b, V)
        own = values.log_softmax(-1) if scored else values  # what the answer's log p is made of
        if scored:
            # a penalty is for logits; then the answer is chosen by these, and scored by the model's own log p
            values = values.clone() if rules.weighs else own
        if not rules.plain:
            before = [[written[line]] for line in alive] if rules.look_back else []
            rules.forbid(values[:, None], alive, length, before, eos)
        tokens = best_place(values) if pick is None else pick(values, [rules.number(line) for line in alive])
        chosen: list[float] = []
        if scored or not rules.lenient:
            chosen = values.gather(1, tokens[:, None])[:, 0].tolist()
        log_ps = own.gather(1, tokens[:, None])[:, 0].tolist() if scored else []
        length += 1
        going_on = []
        # plain Python is faster here than operations on small tensors
        for row, token in enumerate(tokens.tolist()):
            line = alive[row]
            stuck = bool(chosen) and chosen[row] == -math.inf  # no token is allowed
            ended = token == eos and not stuck
            if scored and not stuck:
                totals[line] += log_ps[row]
            if not (ended or stuck):
                written[line].append(token)
            if ended or stuck or length >= rules.longest[line]:
                log_p = totals[line] if scored else math.nan
                answers[line] = Hypothesis(written[line], log_p, log_p, finished=ended)
            else:
                going_on.append(row)
        if len(going_on) < len(alive):
            rows = torch.tensor(going_on, dtype=torch.long)
            alive, tokens = [alive[row] for row in going_on], tokens[rows]
            if alive:
                stepper.keep(rows)
        ids = tokens[:, None]
    return answers


def each_token(
    stepper: Stepper, rules: Rules, *, first: Sequence[int], eos: int, pick: Pick | None = None
) -> Generator[int, None, bool]:
    """Yield the tokens of the only line, each as soon as it is known; the arguments of ``greedy``.

    Returns whether the answer ended by itself, and not at the length limit.
    """
    written: list[int] = []
    token = first[0]
    while len(written) < rules.longest[0]:
        values = stepper.step(torch.tensor([[token]]))[:, 0].cpu()  # (1, V)
        if not rules.plain:
            rules.forbid(values[:, None], [0], len(written), [[written]], eos)
        token = int(best_place(values) if pick is None else pick(values, [rules.number(0)]))
        stuck = values[0, token] == -torch.inf  # no token is allowed
        if token == eos or stuck:
            return not stuck
        written.append(token)
        yield token
    return False


@dataclass
class Sampler:
    """Samples the next token from the model's distribution, optionally truncated.

    Each line has its own random numbers, which depend only on the seed and the line's number, and so not on the other
    lines of the batch.
    """

    seed: int = 0
    temperature: float = 1.0
    """Logits are divided by it; below 1, probable tokens become more probable."""
    top_k: int | None = None
    """Sample from the k most probable tokens only."""
    top_p: float | None = None
    """Sample only from the most probable tokens whose probabilities add up to this value (nucleus sampling)."""
    numbers: Sequence[int] = ()
    """The numbers from which random numbers are drawn, by the numbers that a search knows the lines by; so two lines
    of a batch can have one number, as the first lines of two requests do. Default: those that the search knows."""

    def __post_init__(self) -> None:
        self._random: dict[int, np.random.Generator] = {}

    def __call__(self, values: Tensor, numbers: list[int]) -> Tensor:
        """Return a token for each line; ``values`` are logits or log-probabilities."""
        ordered, order = values.double().sort(dim=-1, descending=True, stable=True)
        # the best value is 0 before the division, so that it stays finite at the lowest temperature
        probabilities = ((ordered - ordered[:, :1]) / self.temperature).softmax(-1)
        if self.top_k is not None and self.top_k < probabilities.shape[1]:
            probabilities[:, self.top_k :] = 0.0
        before = probabilities.cumsum(-1) - probabilities
        if self.top_p is not None:
            # among the tokens that top_k has left
            probabilities[before >= self.top_p * probabilities.sum(-1, keepdim=True)] = 0.0
        total = probabilities.cumsum(-1)
        draws = torch.tensor([[self._draw(number)] for number in numbers], dtype=torch.float64)
        place = torch.searchsorted(total, draws * total[:, -1:], right=True).clamp(max=values.shape[-1] - 1)
        # a draw that rounding pushes past the last possible token takes that one
        last = (probabilities > 0).sum(-1, keepdim=True) - 1
        return order.gather(1, torch.minimum(place, last.clamp(min=0)))[:, 0]

    def _draw(self, number: int) -> float:
        if number not in self._random:
            drawn = self.numbers[number] if self.numbers else number
            self._random[number] = np.random.default_rng([self.seed, drawn])
        return float(self._random[number].random())
