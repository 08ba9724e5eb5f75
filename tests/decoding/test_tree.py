"""The tree of a beam search: its leaves are the result, and watching changes nothing."""

from dataclasses import replace

import pytest

from clearhead.decoding import Hypothesis, Rules, SearchTree, beam_search
from tests.decoding.tables import EOS, ScriptedStepper, TableStepper

BOUND = 1e-5


def searched(
    seed: int, *, width: int = 3, alpha: float = 0.6, longest: int = 6, end_bias: float = 0.0, tree: bool = True
) -> tuple[TableStepper, list[Hypothesis], SearchTree]:
    """The hypotheses of one line, and their tree."""
    recorded = SearchTree()
    table = TableStepper(1, seed=seed, end_bias=end_bias)
    (found,) = beam_search(
        TableStepper(1, seed=seed, end_bias=end_bias),
        Rules(longest=[longest]),
        width=width,
        first=[1],
        eos=EOS,
        alpha=alpha,
        tree=recorded if tree else None,
    )
    return table, found, recorded


def off_by(table: TableStepper, tree: SearchTree) -> float:
    """How far log p of a node is from its parent's and log p of its token after that path, at most."""
    worst = 0.0
    for place, node in enumerate(tree.nodes):
        path = tree.path(place)
        before = 0.0 if node.parent is None else tree.nodes[node.parent].log_probability
        step = table.log_p(0, path, 1, ended=False) - table.log_p(0, path[:-1], 1, ended=False)
        worst = max(worst, abs(before + step - node.log_probability))
    return worst


CASES = [(seed, bias) for seed in range(4) for bias in (-2.0, 0.0, 1.5)]


@pytest.mark.parametrize(("seed", "bias"), CASES)
def test_the_ranked_leaves_are_the_result_of_the_search(seed: int, bias: float) -> None:
    _, found, tree = searched(seed, end_bias=bias)
    ranked = {node.rank: (place, node) for place, node in enumerate(tree.nodes) if node.rank is not None}
    assert sorted(ranked) == list(range(1, len(found) + 1))
    for rank, one in enumerate(found, start=1):
        place, node = ranked[rank]
        tokens = tree.path(place)
        assert tokens == ([*one.tokens, EOS] if one.finished else one.tokens)
        assert node.fate == ("finished" if one.finished else "stopped")
        assert node.log_probability == pytest.approx(one.log_probability, abs=BOUND)
        assert node.score == pytest.approx(one.score, abs=BOUND)


@pytest.mark.parametrize(("seed", "bias"), CASES)
def test_every_node_adds_one_token_to_its_parent(seed: int, bias: float) -> None:
    """log p of a node = log p of its parent + log p of its token, from the table; parents shuffled, it is not."""
    table, _, tree = searched(seed, end_bias=bias)
    assert off_by(table, tree) <= BOUND
    shuffled = [
        node if node.parent is None else replace(node, parent=(node.parent + 1) % place)
        for place, node in enumerate(tree.nodes)
    ]
    assert off_by(table, SearchTree(shuffled)) > 100 * BOUND


def test_what_became_of_each_hypothesis_is_what_the_tree_shows() -> None:
    _, _, tree = searched(1, end_bias=0.5)
    parents = {node.parent for node in tree.nodes}
    for place, node in enumerate(tree.nodes):
        assert node.fate == "continued" if place in parents else node.fate in ("finished", "cut", "stopped")
        assert (node.fate == "finished") == (node.token == EOS)
        assert node.parent is None or node.parent < place
    assert {node.fate for node in tree.nodes} == {"continued", "finished", "cut", "stopped"}


@pytest.mark.parametrize("seed", range(4))
def test_a_watched_search_finds_the_same(seed: int) -> None:
    assert searched(seed)[1] == searched(seed, tree=False)[1]


def test_a_line_with_too_few_ways_has_no_repeated_nodes() -> None:
    """Beams that are repeated to fill the batch are no hypotheses."""
    tree = SearchTree()
    script = {(): [3], (3,): [EOS, 4], (3, 4): [EOS]}
    beam_search(ScriptedStepper(script, 5), Rules(longest=[5]), width=3, first=[1], eos=EOS, tree=tree)
    paths = sorted(tuple(tree.path(place)) for place in range(len(tree.nodes)))
    assert paths == [(3,), (3, EOS), (3, 4), (3, 4, EOS)]


def test_a_tree_is_for_one_line() -> None:
    with pytest.raises(ValueError, match="a tree records one line, not 2"):
        beam_search(TableStepper(2), Rules(longest=[4, 4]), width=2, first=[1, 1], eos=EOS, tree=SearchTree())
