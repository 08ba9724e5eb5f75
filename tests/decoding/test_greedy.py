"""Greedy search and sampling over a step function, without any model."""

from collections import Counter

import pytest
import torch
from torch import Tensor

from clearhead.decoding import Rules, Sampler, each_token, greedy
from tests.decoding.tables import EOS, TableStepper


class Script:
    """Says a fixed answer for each line, and remembers how many lines it was asked for."""

    def __init__(self, answers: list[list[int]]) -> None:
        self.answers, self.number, self.sizes = answers, 0, [len(answers)]

    def step(self, ids: Tensor) -> Tensor:
        assert ids.shape == (len(self.answers), 1)
        logits = torch.zeros(len(ids), 1, 9)
        for row, answer in enumerate(self.answers):
            logits[row, 0, answer[self.number] if self.number < len(answer) else 8] = 1.0
        self.number += 1
        return logits

    def keep(self, lines: Tensor, beams: Tensor | None = None) -> None:
        assert beams is None
        self.answers = [self.answers[row] for row in lines.tolist()]
        self.sizes.append(len(lines))


def test_finished_lines_leave_at_once_and_answers_keep_their_places() -> None:
    script = Script([[5, 6, EOS], [EOS], [7, 7, 7, EOS], [4, EOS]])
    found = greedy(script, Rules(longest=[9] * 4), first=[1] * 4, eos=EOS)
    assert [answer.tokens for answer in found] == [[5, 6], [], [7, 7, 7], [4]]
    assert all(answer.finished for answer in found)
    assert script.sizes == [4, 3, 2, 1]


def test_a_limit_ends_a_line() -> None:
    found = greedy(Script([[5] * 20, [6] * 20]), Rules(longest=[3, 1]), first=[1, 1], eos=EOS)
    assert [(answer.tokens, answer.finished) for answer in found] == [([5, 5, 5], False), ([6], False)]


def test_scores_are_the_log_probabilities_of_what_was_written() -> None:
    """Reference: the table itself, in float64; an unfinished line has no end in its score."""
    table = TableStepper(20)
    found = greedy(table, Rules(longest=[4] * 20), first=[1] * 20, eos=EOS, scored=True)
    assert {answer.finished for answer in found} == {True, False}
    for line, answer in enumerate(found):
        expected = table.log_p(line, answer.tokens, 1, ended=answer.finished)
        assert answer.log_probability == pytest.approx(expected, abs=1e-5)


def test_tokens_one_by_one_are_the_same() -> None:
    for seed in range(5):
        whole = greedy(TableStepper(1, seed=seed), Rules(longest=[9]), first=[1], eos=EOS)[0].tokens
        assert list(each_token(TableStepper(1, seed=seed), Rules(longest=[9]), first=[1], eos=EOS)) == whole


def test_what_is_drawn_for_a_line_does_not_depend_on_the_batch() -> None:
    """Contract 1: all lines together, and each alone under its number."""
    together = greedy(TableStepper(12), Rules(longest=[9] * 12), first=[1] * 12, eos=EOS, pick=Sampler(seed=3))
    for line in range(12):
        alone = TableStepper(12)
        alone.lines, alone.last = alone.lines[line : line + 1], alone.last[line : line + 1]
        rules = Rules(longest=[9], numbers=[line])
        assert greedy(alone, rules, first=[1], eos=EOS, pick=Sampler(seed=3))[0].tokens == together[line].tokens
    other = greedy(TableStepper(12), Rules(longest=[9] * 12), first=[1] * 12, eos=EOS, pick=Sampler(seed=4))
    assert [answer.tokens for answer in other] != [answer.tokens for answer in together]


def _chi_square(counts: Counter[int], probabilities: list[float], draws: int) -> float:
    return sum((counts[token] - draws * p) ** 2 / (draws * p) for token, p in enumerate(probabilities) if p > 0)


@pytest.mark.parametrize(
    ("sampler", "expected"),
    [
        (Sampler(), [0.4, 0.3, 0.2, 0.1]),
        (Sampler(temperature=0.5), [0.16, 0.09, 0.04, 0.01]),
        (Sampler(top_k=2), [0.4, 0.3, 0.0, 0.0]),
        (Sampler(top_p=0.65), [0.4, 0.3, 0.0, 0.0]),
        (Sampler(top_p=0.75), [0.4, 0.3, 0.2, 0.0]),
        (Sampler(top_k=3, top_p=0.5), [0.4, 0.3, 0.0, 0.0]),
        (Sampler(top_k=2, top_p=0.55), [1.0, 0.0, 0.0, 0.0]),  # 0.55 of the 0.7 that top_k leaves
        (Sampler(top_p=0.01), [1.0, 0.0, 0.0, 0.0]),
    ],
)
def test_frequencies_match_the_probabilities(sampler: Sampler, expected: list[float]) -> None:
    """Chi-square at p = 0.0001 (21.1 for three degrees of freedom); another law is far off."""
    draws = 20_000
    order = [2, 0, 3, 1]  # where each probability stands
    logits = torch.empty(4)
    logits[order] = torch.tensor([0.4, 0.3, 0.2, 0.1]).log() + 5.0
    tokens = sampler(logits.expand(draws, 4), list(range(draws))).tolist()
    total = sum(expected)
    law = [0.0] * 4
    for place, p in zip(order, expected, strict=True):
        law[place] = p / total
    counts = Counter(tokens)
    assert all(law[token] > 0 for token in counts)
    assert _chi_square(counts, law, draws) < 21.1
    assert _chi_square(counts, [0.25] * 4, draws) > 21.1  # the wrong law
