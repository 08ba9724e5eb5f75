"""Hidden tokens: BERT's shares, never the specials, and labels for the hidden ones alone."""

import numpy as np
import pytest

from clearhead.data import PAD, Masker
from clearhead.recipe import MaskingSpec

MASK, SIZE = 4, 40
LINE = np.array([1, *range(10, 30), 2])


def masker(**settings: float) -> Masker:
    return Masker(MaskingSpec(**settings), MASK, SIZE)


def test_shares_are_those_of_the_recipe_and_specials_are_never_touched() -> None:
    """Devlin et al.: 15 % are chosen, of which 80 % become <mask>, 10 % another token, 10 % stay as they are."""
    lines = [masker().corrupted(LINE, (seed,)) for seed in range(1500)]
    inputs, labels = np.stack([one for one, _ in lines]), np.stack([other for _, other in lines])
    chosen = labels != PAD
    assert (chosen.sum(1) == 3).all()  # 15 % of 20
    assert (labels[chosen] == np.broadcast_to(LINE, labels.shape)[chosen]).all()
    assert (inputs[~chosen] == np.broadcast_to(LINE, labels.shape)[~chosen]).all()
    assert not chosen[:, [0, -1]].any()
    masked = inputs[chosen] == MASK
    changed = ~masked & (inputs[chosen] != labels[chosen])
    assert masked.mean() == pytest.approx(0.8, abs=0.03)
    assert changed.mean() == pytest.approx(0.1 * 34 / 35, abs=0.02)  # one of 35 tokens is drawn for itself
    assert inputs[chosen][changed].min() > MASK
    assert set(np.flatnonzero(chosen.any(0))) == set(range(1, 21))


def test_in_scoring_every_chosen_token_is_masked_and_the_line_decides_which() -> None:
    inputs, labels = masker(share=0.3).hidden(LINE)
    assert (inputs == MASK).sum() == 6
    assert ((inputs == MASK) == (labels != PAD)).all()
    again = masker(share=0.3).hidden(LINE.copy())
    assert all(np.array_equal(mine, other) for mine, other in zip((inputs, labels), again, strict=True))
    other = masker(share=0.3).hidden(np.array([1, *range(11, 31), 2]))
    assert not np.array_equal(inputs == MASK, other[0] == MASK)


def test_a_short_line_has_one_hidden_token() -> None:
    inputs, labels = masker().corrupted(np.array([1, 10, 2]), (0,))
    assert labels.tolist() == [PAD, 10, PAD]
    assert inputs[[0, 2]].tolist() == [1, 2]
