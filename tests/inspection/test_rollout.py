"""Rows of a rollout sum to 1, and nothing comes from the future."""

import pytest
import torch

from clearhead.errors import ClearheadError
from clearhead.inspection import record
from clearhead.inspection.rollout import rollout
from tests.inspection.cases import NORMS, apart, ids, model_of, pixels
from tests.inspection.conftest import Hold
from tests.models.zoo import GRID_VARIANTS, VARIANTS, make, make_grid

SOURCE, TARGET = ids(1, 6), ids(1, 5, seed=4)
SUM, FUTURE = "rollout rows sum to 1", "rollout: nothing from the future"
SOME = [name for name in VARIANTS if name.startswith(("attention", "position shaw", "hard"))]


def by_hand(found: object, share: float) -> torch.Tensor:
    """The decoder's rollout over source + prefix as one big matrix, (n + m, n + m): an independent way to write it."""
    n, m = SOURCE.shape[1], TARGET.shape[1]
    whole = torch.eye(n + m, dtype=torch.float64)
    stacks = found.stacks  # type: ignore[attr-defined]
    mean = {
        (stack, layer): parts[0].weights[0].double().mean(0)
        for stack, layer, parts in found.attentions()  # type: ignore[attr-defined]
    }

    def step(rows: slice, columns: slice, weights: torch.Tensor) -> None:
        nonlocal whole
        mixing = torch.eye(n + m, dtype=torch.float64)
        mixing[rows] *= share
        mixing[rows, columns] += (1 - share) * weights
        whole = mixing @ whole

    for layer in range(1, len(stacks["encoder"].layers) + 1):
        step(slice(0, n), slice(0, n), mean["encoder", layer])
    for layer in range(1, len(stacks["decoder"].layers) + 1):
        step(slice(n, None), slice(n, None), mean["decoder", layer])
        step(slice(n, None), slice(0, n), mean["cross", layer])
    return whole[n:]


@pytest.mark.parametrize("variant", ["plain", *SOME])
def test_rollout(variant: str, hold: Hold) -> None:
    model = model_of("seq2seq", "pre", variant)
    found = record(model, SOURCE, TARGET)
    rolled = rollout(model, found)
    assert rolled["encoder"].shape == (6, 6)
    assert rolled["decoder"].shape == (5, 11)
    for matrix in rolled.values():
        hold(SUM, 1e-6, apart(matrix.sum(-1), torch.ones(())))
    hold(
        FUTURE, 1e-6, float(rolled["decoder"][:, 6:].triu(1).abs().max()), float(rolled["decoder"][:, 6:].tril().max())
    )


@pytest.mark.parametrize("norm", list(NORMS))
def test_rollout_by_hand(norm: str, hold: Hold) -> None:
    """Wrong: without the residual connection's half."""
    model = model_of("seq2seq", norm)
    found = record(model, SOURCE, TARGET)
    rolled = rollout(model, found)["decoder"]
    hold(
        "rollout = one product of matrices",
        1e-6,
        apart(rolled, by_hand(found, 0.5)),
        apart(rolled, by_hand(found, 0.0)),
    )
    doubled = found.stacks["decoder"].layers[0].sublayers[0].attentions[0].weights[0].mean(0).double() + torch.eye(5)
    hold(SUM, 1e-6, apart(rolled.sum(-1), torch.ones(())), apart(doubled.sum(-1), torch.ones(())))


@pytest.mark.parametrize("variant", [name for name in GRID_VARIANTS if name.startswith("attention ")])
def test_pictures(variant: str, hold: Hold) -> None:
    model = make_grid("classifier", variant)
    matrix = rollout(model, record(model, pixels(1)))["encoder"]
    hold(SUM, 1e-6, apart(matrix.sum(-1), torch.ones(())))


def test_refusals_say_why() -> None:
    for variant in ("luong", "Transformer to recurrent", "recurrent to Transformer"):
        model = make("seq2seq", variant)
        with pytest.raises(ClearheadError, match=r"no rollout: the .* is recurrent"):
            rollout(model, record(model, SOURCE, TARGET))
