"""Greedy search over a step function, without any model."""

import torch
from torch import Tensor

from clearhead.decoding import greedy


class Script:
    """A state that says a fixed answer for each line, and remembers how many lines it was asked for."""

    def __init__(self, answers: list[list[int]]) -> None:
        self.answers, self.step_number, self.sizes = answers, 0, [len(answers)]

    def step(self, ids: Tensor) -> Tensor:
        assert len(ids) == len(self.answers)
        logits = torch.zeros(len(ids), 9)
        for row, answer in enumerate(self.answers):
            logits[row, answer[self.step_number] if self.step_number < len(answer) else 8] = 1.0
        self.step_number += 1
        return logits

    def keep(self, rows: Tensor) -> None:
        self.answers = [self.answers[row] for row in rows.tolist()]
        self.sizes.append(len(rows))


def test_finished_lines_leave_at_once_and_answers_keep_their_places() -> None:
    eos = 2
    script = Script([[5, 6, eos], [eos], [7, 7, 7, eos], [4, eos]])
    answers = greedy(script.step, script.keep, first=1, eos=eos, limits=[9, 9, 9, 9])
    assert answers == [[5, 6], [], [7, 7, 7], [4]]
    assert script.sizes == [4, 3, 2, 1, 0]


def test_a_limit_ends_a_line() -> None:
    script = Script([[5] * 20, [6] * 20])
    assert greedy(script.step, script.keep, first=1, eos=2, limits=[3, 1]) == [[5, 5, 5], [6]]
