"""A stepper without any model: the next token's probabilities follow from the last tokens by a random table."""

import itertools

import torch
from torch import Tensor

EOS = 2


class TableStepper:
    """p(next | line, last two tokens), drawn at random; remembers how many lines it was asked for."""

    def __init__(self, lines: int, size: int = 5, seed: int = 0, end_bias: float = 0.0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.table = torch.randn(lines, size, size, size, generator=generator) * 1.5
        self.table[..., EOS] += end_bias
        self.lines = torch.arange(lines)
        self.last = torch.zeros(lines, 1, 2, dtype=torch.long)
        self.asked = [lines]

    def step(self, ids: Tensor) -> Tensor:
        self.last = torch.stack((self.last[..., 1], ids), dim=-1)
        return self.table[self.lines[:, None], self.last[..., 0], self.last[..., 1]]

    def keep(self, lines: Tensor, beams: Tensor | None = None) -> None:
        self.lines, self.last = self.lines[lines], self.last[lines]
        if beams is not None:
            self.last = self.last[torch.arange(len(lines))[:, None], beams]
        self.asked.append(len(lines))

    def log_p(self, line: int, tokens: list[int], first: int, *, ended: bool = True) -> float:
        """log p of a whole answer, from the table alone."""
        total, history = 0.0, [0, first]
        for token in (*tokens, EOS) if ended else tokens:
            logits = self.table[line, history[-2], history[-1]].double()
            total += float(logits.log_softmax(-1)[token])
            history.append(token)
        return total


def everything(size: int, longest: int) -> list[list[int]]:
    """Every answer of at most ``longest`` tokens."""
    tokens = [token for token in range(size) if token != EOS]
    return [list(answer) for length in range(longest + 1) for answer in itertools.product(tokens, repeat=length)]


class ScriptedStepper:
    """One line, whose next token is certain, or drawn evenly from some: ``script`` says which, by the tokens so far."""

    def __init__(self, script: dict[tuple[int, ...], list[int]], size: int) -> None:
        self.script, self.size = script, size
        self.beams: list[tuple[int, ...]] = [()]
        self.begun = False

    def step(self, ids: Tensor) -> Tensor:
        if self.begun:
            self.beams = [(*beam, token) for beam, token in zip(self.beams, ids[0].tolist(), strict=True)]
        self.begun = True
        logits = torch.full((1, len(self.beams), self.size), -torch.inf)
        for place, beam in enumerate(self.beams):
            logits[0, place, self.script[beam]] = 0.0
        return logits

    def keep(self, lines: Tensor, beams: Tensor | None = None) -> None:
        if beams is not None:
            self.beams = [self.beams[place] for place in beams[0].tolist()]
