"""The loss of every family, against the formula written out: smoothing as the recipe says, padding left out."""

from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.data import PAD, Batch, LabelBatch, TextBatch
from clearhead.models import build
from clearhead.recipe import read_recipe
from clearhead.training.objectives import objective_of

SIZES = [
    *("model.layers=1", "model.width=8", "model.heads=2", "model.feedforward.width=8"),
    *("model.vocabulary.source=12", "model.vocabulary.target=12"),
    *("model.dropout.residual=0.0", "model.dropout.embedding=0.0"),
]
IDS = torch.tensor([[5, 6, 7, 8], [9, 10, PAD, PAD]])
NEXT = torch.tensor([[6, 7, 8, 2], [10, 2, PAD, PAD]])
FAMILIES: dict[str, tuple[list[str], Any, float]] = {
    "seq2seq": ([], Batch(source=IDS, inputs=IDS, labels=NEXT), 0.1),
    "lm": ([], TextBatch(inputs=IDS, labels=NEXT), 0.0),
    "encoder": (["model.head=tokens"], TextBatch(inputs=IDS, labels=NEXT), 0.0),
    "classifier": (["model.classes=3"], LabelBatch(inputs=IDS, labels=torch.tensor([2, 0])), 0.1),
}
"""Settings, a batch with padding, and the usual smoothing."""


def smoothed(logits: Tensor, labels: Tensor, epsilon: float) -> float:
    """Σ (1 − ε)(−log p(y)) + ε·mean_v(−log p(v)), over the labels that are not padding, one by one."""
    total = 0.0
    for row, label in zip(logits.flatten(0, -2).double(), labels.flatten().tolist(), strict=True):
        if labels.dim() == 1 or label != PAD:
            log_p = (row - row.exp().sum().log()).tolist()
            total -= (1 - epsilon) * log_p[label] + epsilon * sum(log_p) / len(log_p)
    return total


def _logits(model: Any, ids: Tensor) -> Tensor:
    found: Tensor = model.output(model.states(ids)) if model.spec.family == "encoder" else model(ids)
    return found


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("given", [None, 0.0, 0.3])
def test_the_loss_is_smoothed_as_the_recipe_says(family: str, given: float | None) -> None:
    """Not at all with 0, as is usual for the family if the recipe is silent; any other smoothing is another loss."""
    settings, batch, usual = FAMILIES[family]
    smoothing = [] if given is None else [f"training.label_smoothing={given}"]
    recipe = read_recipe(None, f"model.family={family}", *SIZES, *settings, *smoothing)
    model: Any = build(recipe, seed=1).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.5)
        logits = model(batch.source, batch.inputs) if isinstance(batch, Batch) else _logits(model, batch.inputs)
        loss = float(objective_of(recipe).loss(model, batch))
    epsilon = usual if given is None else given
    assert loss == pytest.approx(smoothed(logits, batch.labels, epsilon), rel=1e-5)
    assert loss != pytest.approx(smoothed(logits, batch.labels, 0.5), rel=1e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_two_passes_drop_out_other_features_and_are_drawn_together(family: str) -> None:
    """With ``training.agreement`` α: without dropout the loss of one pass; with it the mean of the two passes' and α/4
    of their divergences, logits of lines that pass twice being the reference; the wrong variants are twice α, and one
    pass that is compared with itself."""
    settings, batch, usual = FAMILIES[family]
    described = [f"model.family={family}", *SIZES, *settings]

    def built(alpha: float, rate: float) -> tuple[Any, Any]:
        dropout = [f"model.dropout.residual={rate}", f"model.dropout.embedding={rate}"]
        recipe = read_recipe(None, *described, *dropout, f"training.agreement={alpha}")
        model: Any = build(recipe, seed=1).train()
        with torch.no_grad():
            for number, parameter in enumerate(model.parameters()):
                parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(number)) / 2)
        return model, objective_of(recipe)

    def loss(alpha: float, rate: float) -> float:
        model, objective = built(alpha, rate)
        torch.manual_seed(3)
        return float(objective.loss(model, batch).detach())

    assert loss(4.0, 0.0) == pytest.approx(loss(0.0, 0.0), rel=1e-5)
    model, _ = built(4.0, 0.3)
    torch.manual_seed(3)
    twice = torch.cat([IDS, IDS])
    with torch.no_grad():
        logits = model(twice, twice) if isinstance(batch, Batch) else _logits(model, twice)
    halves = logits.double().chunk(2)
    means = sum(smoothed(half, batch.labels, usual) for half in halves) / 2
    counts = batch.labels != PAD if batch.labels.dim() == 2 else torch.ones(len(batch.labels), dtype=torch.bool)
    p, q = (half[counts].log_softmax(-1) for half in halves)
    divergences = float(((p.exp() - q.exp()) * (p - q)).sum())
    assert divergences > 0.05
    assert loss(4.0, 0.3) == pytest.approx(means + 4 / 4 * divergences, rel=1e-4)
    assert loss(8.0, 0.3) == pytest.approx(means + 8 / 4 * divergences, rel=1e-4)
    assert loss(4.0, 0.3) != pytest.approx(means, rel=1e-3)
