"""Scores of pairs against a sum over all alignments; what n-grams explain, and what they do not."""

import random

import numpy as np
import pytest

from clearhead.joint import UNALIGNED, explained, fit
from clearhead.joint.kneser_ney import FIRST
from clearhead.joint.ngrams import JointNgrams
from tests.joint.test_alignment import all_alignments, key_of

Lines = list[np.ndarray]
SOUNDS = {1: [11], 2: [12], 3: [13, 14], 4: [], 5: [15]}
"""A language: what each letter sounds like; 5 after 4 is silent."""


def spoken(line: list[int]) -> list[int]:
    return [sound for at, letter in enumerate(line) for sound in SOUNDS[letter] if line[max(0, at - 1) : at] != [4]]


def language(count: int, seed: int = 1) -> tuple[Lines, Lines]:
    draw = random.Random(seed)
    sources = [[draw.randrange(1, 6) for _ in range(draw.randrange(3, 7))] for _ in range(count)]
    return [np.array(line) for line in sources], [np.array(spoken(line), int) for line in sources]


def made(order: int = 3) -> JointNgrams:
    found = fit(*language(400), order=order)
    assert found is not None
    return found


@pytest.mark.parametrize("order", [1, 3])
def test_a_pair_is_as_probable_as_all_its_alignments_together(order: int) -> None:
    """With single units, ways that meet have the same history and are added up; with longer ones few are."""
    model = made(order)
    for source, target in zip(*language(20, seed=2), strict=True):
        ways = [
            [int(np.searchsorted(model.units, key_of(unit))) + FIRST for unit in way]
            for way in all_alignments(source.tolist(), target.tolist())
            if all(key_of(unit) in model.units for unit in way)
        ]
        each = model.table.score(ways)
        expected = np.logaddexp.reduce(each)
        assert model.score([source], [target])[0] == pytest.approx(expected, abs=1e-4)  # far worse ones are left out
        if len(each) > 1:
            assert expected > each.max() + 1e-6  # the best alone is something else


def test_a_score_does_not_depend_on_the_other_pairs() -> None:
    """Contract 1: neighbours do not matter, to the last bit."""
    model, (sources, targets) = made(), language(30, seed=3)
    together = model.score(sources, targets)
    alone = [model.score([source], [target])[0] for source, target in zip(sources, targets, strict=True)]
    assert together.tolist() == alone
    assert model.score([], []).tolist() == []


def test_a_right_target_is_more_probable_than_a_wrong_one() -> None:
    model, (sources, targets) = made(), language(50, seed=4)
    others = [np.append(target, 12) for target in targets]
    assert (model.score(sources, targets) > model.score(sources, others)).mean() > 0.95


def test_a_pair_of_unknown_units_gets_the_lowest_score() -> None:
    assert made().score([[1], [40]], [[15, 15, 15, 15], [11]]).tolist() == [UNALIGNED, UNALIGNED]


def test_n_grams_explain_a_language_and_not_its_reverse() -> None:
    """What goes side by side is explained; targets that run backwards, or belong to other sources, are not."""
    known, new = language(2000), language(200, seed=5)
    model = fit(*known, order=3)
    assert model is not None
    assert explained(model, known, new, order=3) > 0.8
    shuffled = known[0], known[1][1:] + known[1][:1]
    wrong = fit(*shuffled, order=3)
    assert wrong is not None
    assert explained(wrong, shuffled, (new[0], new[1][1:] + new[1][:1]), order=3) < 0.3


def test_pairs_that_do_not_align_are_no_model() -> None:
    short, long = [np.array([1])] * 10, [np.arange(9)] * 10
    assert fit(short, long) is None
    assert fit([np.arange(200)] * 3, [np.arange(200)] * 3) is None
    assert fit([], []) is None
    many = [np.array([number]) for number in range(2**15 - 5, 2**15 + 5)]
    assert fit(many, many) is None  # keys of units would be mistaken for each other


def test_of_too_many_pairs_some_say_which_units_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them are counted all the same."""
    whole = made()
    monkeypatch.setattr("clearhead.joint.ngrams.MOST_CELLS", 10_000)
    some = made()
    assert some.units.tolist() != whole.units.tolist()
    assert len(some.table.tokens) > 0.8 * len(whole.table.tokens)
    pairs = language(50, seed=7)
    assert np.corrcoef(some.score(*pairs), whole.score(*pairs))[0, 1] > 0.9
