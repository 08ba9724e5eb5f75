"""Mixtures of weights: every number is the mean by shares, and what does not fit together is refused."""

import pytest
import torch
from tools.mix import mixed

from clearhead.models import SavedModel, build
from clearhead.recipe import read_recipe

SIZES = ("model.layers=1", "model.width=16", "model.vocabulary.source=9", "model.vocabulary.target=9")


def saved(seed: int, *settings: str) -> SavedModel:
    """A small model with the weights of this seed."""
    recipe = read_recipe("tiny", *SIZES, *settings)
    return SavedModel(build(recipe, seed=seed), recipe)


def test_each_number_is_the_mean_by_shares() -> None:
    """Shares need not add up to 1; a share of 0 leaves a model out."""
    weights = [{name: part.detach().clone() for name, part in saved(seed).model.named_parameters()} for seed in (1, 2)]
    found = dict(mixed([saved(1), saved(2)], [3.0, 1.0]).model.named_parameters())
    for name, part in found.items():
        torch.testing.assert_close(part, 0.75 * weights[0][name] + 0.25 * weights[1][name])
    alone = dict(mixed([saved(1), saved(2)], [0.0, 2.0]).model.named_parameters())
    assert all(torch.equal(part, weights[1][name]) for name, part in alone.items())


def test_models_of_other_sizes_are_refused() -> None:
    """A mean of weights makes sense only for networks that began as one."""
    with pytest.raises(ValueError, match="not of one kind"):
        mixed([saved(1), saved(2, "model.layers=2")], [1.0, 1.0])
