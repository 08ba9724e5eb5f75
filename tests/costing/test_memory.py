"""What training holds, before it is taken."""

import pytest

from clearhead.costing import cost
from clearhead.costing.memory import training_bytes
from clearhead.recipe import read_recipe

WIDE = ["model.width=512", "model.vocabulary.source=50", "model.vocabulary.target=50"]


@pytest.mark.parametrize(
    ("settings", "copies"),
    [
        ([], 5),
        (["training.average=0"], 4),
        (["training.optimizer.kind=muon", "training.average=0"], 3),
        (["training.average=0", "training.precision=bfloat16"], 4.4),  # half a copy more, of matrices
    ],
)
def test_one_short_line_takes_as_many_copies_of_the_weights_as_are_held(settings: list[str], copies: float) -> None:
    """Weights, gradients, two moments of AdamW (one of Muon) and the average; what one token keeps is little."""
    recipe = read_recipe("tiny", *WIDE, "training.precision=float32", *settings)
    weights = 4 * cost(recipe).parameters.at()
    assert copies * weights < training_bytes(recipe, length=1, examples=1) < (copies + 0.3) * weights


def test_longer_and_more_lines_take_more_up_to_the_batch() -> None:
    recipe = read_recipe("tiny", "training.batch_tokens=1000")
    sizes = [
        training_bytes(recipe, length=length, examples=examples) for length, examples in ((10, 1), (10, 100), (10, 999))
    ]
    assert sizes[0] < sizes[1] == sizes[2]
    assert training_bytes(recipe, length=100, examples=1) > sizes[0]


def test_a_batch_that_passes_twice_keeps_twice_as_much() -> None:
    """``training.agreement`` (R-Drop): the lines of a batch stand in it twice, the weights do not."""
    recipe, twice = (
        read_recipe("tiny", "training.batch_tokens=1000", *more) for more in ([], ["training.agreement=5"])
    )
    held = 2 * training_bytes(recipe, length=10, examples=1) - training_bytes(recipe, length=10, examples=2)
    assert training_bytes(twice, length=10) - held == 2 * (training_bytes(recipe, length=10) - held)
