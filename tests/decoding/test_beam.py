"""Beam search over a step function, without any model."""

import pytest

from clearhead.decoding import Rules, beam_search, greedy, length_penalty
from tests.decoding.tables import EOS, ScriptedStepper, TableStepper, everything

SIZE, LONGEST = 4, 4


def gnmt(length: int, alpha: float) -> float:
    """((5 + |y|)/6)^α, written once more: Wu et al. 2016, equation 14, where |y| counts the end token."""
    return float(((5 + length) / (5 + 1)) ** alpha)


def test_the_length_penalty_is_gnmts() -> None:
    """An answer of one token has none, seven tokens count double for α = 1; longer answers are penalised less."""
    assert length_penalty(1, 0.6) == 1.0
    assert length_penalty(7, 1.0) == 2.0
    assert length_penalty(19, 0.5) == 2.0
    assert length_penalty(9, 0.0) == 1.0
    assert length_penalty(12, -1.0) == pytest.approx(6 / 17)


def test_a_length_penalty_prefers_longer_answers() -> None:
    """α = 0 prefers the answer with the higher log p, α = 1 the longer one, which is less probable as a whole."""
    found = [
        beam_search(TableStepper(20, 6, seed=3), Rules(longest=[8] * 20), width=4, first=[1] * 20, eos=EOS, alpha=alpha)
        for alpha in (0.0, 1.5)
    ]
    plain, longer = (sum(len(best.tokens) for best, *_ in lines) for lines in found)
    assert longer > plain


def _ranked(table: TableStepper, line: int, alpha: float) -> list[tuple[float, list[int]]]:
    """Every answer with its score, the best first: exhaustive search; at the longest length there is no end."""
    found = []
    for answer in everything(SIZE, LONGEST):
        ended = len(answer) < LONGEST
        penalty = gnmt(len(answer) + ended, alpha)
        found.append((table.log_p(line, answer, 1, ended=ended) / penalty, answer))
    return sorted(found, key=lambda pair: -pair[0])


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_a_beam_as_wide_as_the_space_is_exhaustive_search(alpha: float) -> None:
    """Reference: every answer scored from the table; the ten best of each of six lines, in order."""
    width = 3**LONGEST
    table = TableStepper(6, SIZE)
    found = beam_search(
        TableStepper(6, SIZE), Rules(longest=[LONGEST] * 6), width=width, first=[1] * 6, eos=EOS, alpha=alpha
    )
    narrow = beam_search(TableStepper(6, SIZE), Rules(longest=[LONGEST] * 6), width=1, first=[1] * 6, eos=EOS)
    missed = 0
    for line, hypotheses in enumerate(found):
        expected = _ranked(table, line, alpha)
        for hypothesis, (score, answer) in zip(hypotheses[:10], expected, strict=False):
            assert hypothesis.score == pytest.approx(score, abs=1e-5)
            tied = sum(abs(score - other) < 1e-5 for other, _ in expected) > 1
            assert hypothesis.tokens == answer or tied
        missed += narrow[line][0].tokens != expected[0][1]
    assert missed, "the wrong variant: a narrow beam must miss some best answers, or the test shows nothing"


def plain_beam(
    table: TableStepper, line: int, *, width: int, longest: int, alpha: float
) -> list[tuple[float, list[int]]]:
    """The rule of ``beam_search``'s docstring, one line and one prefix at a time: (score, tokens), the best first."""
    beams: list[tuple[float, list[int]]] = [(0.0, [])]
    finished: list[tuple[float, list[int]]] = []
    for length in range(1, longest + 1):
        every = [
            (table.log_p(line, [*tokens, token], 1, ended=False), tokens, token)
            for _, tokens in beams
            for token in range(table.table.shape[-1])
        ]
        best = sorted(every, key=lambda entry: -entry[0])[: 2 * width]
        ends = [(value / gnmt(length, alpha), tokens) for value, tokens, token in best[:width] if token == EOS]
        going = [(value, [*tokens, token]) for value, tokens, token in best if token != EOS][:width]
        if length == longest:
            ends += [(value / gnmt(length, alpha), tokens) for value, tokens in going]
        finished = sorted(finished + ends, key=lambda entry: -entry[0])[:width]
        if len(finished) == width and going[0][0] / gnmt(length, alpha) <= finished[-1][0]:
            break
        beams = going
    return finished


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize(("width", "end_bias"), [(2, 0.0), (3, -1.5), (3, 1.0), (4, 2.5)])
def test_a_narrow_beam_follows_its_rule(width: int, end_bias: float, alpha: float) -> None:
    """Reference: the rule written plainly; which continuations are considered, which end, when a line stops."""
    table = TableStepper(25, 6, seed=4, end_bias=end_bias)
    rules = Rules(longest=[7] * 25)
    stepper = TableStepper(25, 6, seed=4, end_bias=end_bias)
    found = beam_search(stepper, rules, width=width, first=[1] * 25, eos=EOS, alpha=alpha)
    for line, hypotheses in enumerate(found):
        expected = plain_beam(table, line, width=width, longest=7, alpha=alpha)
        assert [one.tokens for one in hypotheses] == [tokens for _, tokens in expected]
        assert [one.score for one in hypotheses] == pytest.approx([score for score, _ in expected], abs=1e-5)


def test_of_equal_hypotheses_the_first_found_comes_first() -> None:
    """Four answers of probability 1/4 each, found one step after the other."""
    script = {(): [0, 1, EOS, 3], (0,): [EOS], (1,): [0], (1, 0): [EOS], (3,): [0], (3, 0): [0], (3, 0, 0): [EOS]}
    (found,) = beam_search(ScriptedStepper(script, 4), Rules(longest=[5]), width=4, first=[1], eos=EOS)
    assert [one.tokens for one in found] == [[], [0], [1, 0], [3, 0, 0]]
    assert len({one.score for one in found}) == 1


def test_a_beam_of_one_is_greedy() -> None:
    for seed in range(20):
        rules = Rules(longest=[3, 6, 9, 12])
        one = beam_search(TableStepper(4, seed=seed), rules, width=1, first=[1] * 4, eos=EOS, alpha=0.6)
        best = greedy(TableStepper(4, seed=seed), rules, first=[1] * 4, eos=EOS, scored=True)
        for (mine,), other in zip(one, best, strict=True):
            assert (mine.tokens, mine.finished) == (other.tokens, other.finished)
            assert mine.log_probability == pytest.approx(other.log_probability, abs=1e-5)


@pytest.mark.parametrize("end_bias", [-3.0, 0.0, 3.0])
def test_n_best_are_sorted_distinct_and_scored_right(end_bias: float) -> None:
    """Log-probabilities by the table; scores by the length penalty; finished or not."""
    table = TableStepper(10, 6, seed=1, end_bias=end_bias)
    found = beam_search(
        TableStepper(10, 6, seed=1, end_bias=end_bias),
        Rules(longest=list(range(1, 11))),
        width=4,
        first=[1] * 10,
        eos=EOS,
        alpha=0.6,
    )
    for line, hypotheses in enumerate(found):
        assert [one.score for one in hypotheses] == sorted((one.score for one in hypotheses), reverse=True)
        assert len({(tuple(one.tokens), one.finished) for one in hypotheses}) == len(hypotheses) == 4
        for one in hypotheses:
            assert one.log_probability == pytest.approx(table.log_p(line, one.tokens, 1, ended=one.finished), abs=1e-5)
            penalty = gnmt(len(one.tokens) + one.finished, 0.6)
            assert one.score == pytest.approx(one.log_probability / penalty, abs=1e-5)


def test_a_line_does_not_depend_on_its_neighbours() -> None:
    together = beam_search(TableStepper(8, 7), Rules(longest=[9] * 8), width=3, first=[1] * 8, eos=EOS)
    for line in range(8):
        alone = TableStepper(8, 7)
        alone.lines, alone.last = alone.lines[line : line + 1], alone.last[line : line + 1]
        (found,) = beam_search(alone, Rules(longest=[9]), width=3, first=[1], eos=EOS)
        assert [one.tokens for one in found] == [one.tokens for one in together[line]]
