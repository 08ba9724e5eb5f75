"""Greedy search: always the most probable next token.

Shapes: b lines, V tokens of the vocabulary.
"""

from collections.abc import Callable

import torch
from torch import Tensor

Step = Callable[[Tensor], Tensor]
"""What search needs of a model: feed a token to each line, (b, 1), and get the logits of the next, (b, V)."""
Keep = Callable[[Tensor], None]
"""What search needs of a model's state: keep these lines, (r,), in this order, and forget all others."""


def greedy(step: Step, keep: Keep, *, first: int, eos: int, limits: list[int]) -> list[list[int]]:
    """The answer to each line, without its end token; a line that is finished leaves the batch at once.

    ``limits`` is the longest answer of each line; a line that reaches it ends there.
    """
    answers: list[list[int]] = [[] for _ in limits]
    alive = list(range(len(limits)))
    ids = torch.full((len(limits), 1), first)
    while alive:
        tokens = step(ids).argmax(-1).tolist()
        rows = []
        for row, (line, token) in enumerate(zip(alive, tokens, strict=True)):
            if token != eos:
                answers[line].append(token)
                if len(answers[line]) < limits[line]:
                    rows.append(row)
        if len(rows) < len(alive):
            keep(torch.tensor(rows, dtype=torch.long))
            alive = [alive[row] for row in rows]
        ids = torch.tensor([[answers[line][-1]] for line in alive], dtype=torch.long)
    return answers
