"""What may come next: prefixes, lengths, banned tokens, permitted outputs; for greedy, beam and sampling."""

from collections.abc import Callable

import pytest

from clearhead.decoding import Hypothesis, Rules, Sampler, Trie, beam_search, greedy
from tests.decoding.tables import EOS, TableStepper

LINES = 30


def _greedy(rules: Rules) -> list[Hypothesis]:
    return greedy(TableStepper(LINES, 8), rules, first=[1] * LINES, eos=EOS, scored=True)


def _beam(rules: Rules) -> list[Hypothesis]:
    found = beam_search(TableStepper(LINES, 8), rules, width=3, first=[1] * LINES, eos=EOS)
    return [one for hypotheses in found for one in hypotheses]


def _sampled(rules: Rules) -> list[Hypothesis]:
    return greedy(TableStepper(LINES, 8), rules, first=[1] * LINES, eos=EOS, scored=True, pick=Sampler(top_k=5))


searches = pytest.mark.parametrize("search", [_greedy, _beam, _sampled])
Search = Callable[[Rules], list[Hypothesis]]


@searches
def test_a_prefix_is_honoured(search: Search) -> None:
    prefix = [7, 7, 3]
    found = search(Rules(longest=[9] * LINES, prefixes=[prefix] * LINES))
    assert all(one.tokens[:3] == prefix for one in found)
    assert any(one.tokens[:3] != prefix for one in search(Rules(longest=[9] * LINES)))


@searches
def test_a_token_that_is_banned_can_be_forced(search: Search) -> None:
    """As in transformers, where a forced first token wins over banned ones; later it is banned."""
    found = search(Rules(longest=[9] * LINES, prefixes=[[7]] * LINES, banned=[7], shortest=[4] * LINES))
    assert all(one.tokens[0] == 7 and 7 not in one.tokens[1:] for one in found)


@searches
def test_lengths_are_kept(search: Search) -> None:
    found = search(Rules(longest=[6] * LINES, shortest=[4] * LINES))
    assert {len(one.tokens) for one in found} <= {4, 5, 6}
    assert any(len(one.tokens) < 4 for one in search(Rules(longest=[6] * LINES)))


@searches
def test_banned_tokens_are_never_written(search: Search) -> None:
    assert not any({3, 5} & set(one.tokens) for one in search(Rules(longest=[9] * LINES, banned=[3, 5])))
    assert any({3, 5} & set(one.tokens) for one in search(Rules(longest=[9] * LINES)))


@searches
def test_only_permitted_outputs_come_out(search: Search) -> None:
    """A trie of outputs of unequal length, one the beginning of another; and log p is the model's own."""
    permitted = [[3], [3, 4], [4, 5, 6, 7], [7, 0, 0], [5, 5, 5, 5, 5]]
    table = TableStepper(LINES, 8)
    found = search(Rules(longest=[9] * LINES, allowed=Trie(permitted, EOS)))
    assert {tuple(one.tokens) for one in found} <= {tuple(output) for output in permitted}
    assert all(one.finished for one in found)
    if search is not _beam:
        for line, one in enumerate(found):
            assert one.log_probability == pytest.approx(table.log_p(line, one.tokens, 1), abs=1e-5)


@pytest.mark.parametrize("search", [_greedy, _sampled])
def test_a_line_that_nothing_may_continue_ends(search: Search) -> None:
    """It has an empty answer that is not finished; its neighbours are as they were."""
    free = search(Rules(longest=[9] * LINES))
    found = search(Rules(longest=[9] * LINES, allowed=lambda line, _: () if line == 0 else None))
    assert (found[0].tokens, found[0].finished) == ([], False)
    assert [one.tokens for one in found[1:]] == [one.tokens for one in free[1:]]


def test_a_beam_that_nothing_may_continue_has_no_answer() -> None:
    """Its neighbours have theirs."""
    rules = Rules(longest=[9] * LINES, allowed=lambda line, _: () if line == 0 else None)
    found = beam_search(TableStepper(LINES, 8), rules, width=3, first=[1] * LINES, eos=EOS)
    assert [len(hypotheses) for hypotheses in found] == [0] + [3] * (LINES - 1)
