"""Claims notice when the product is broken: each of these once went unseen by every claim."""

import dataclasses
from typing import Any

import pytest
import torch

from clearhead.lectures import demonstrate
from clearhead.lectures.demonstrations.broken import Breaker, broken

HEADS = "clearhead.attention.paths.attend_heads"
MASK = "clearhead.attention.context.causal_mask"
NORM = "clearhead.blocks.norm.LayerNorm"


def sequential(right: Any) -> Any:
    def one_by_one(method: Any, query: torch.Tensor, *rest: Any) -> torch.Tensor:
        parts: list[torch.Tensor] = []
        for i in range(query.shape[2]):
            waits = 0.0 * parts[-1].sum() if parts else 0.0
            parts.append(right(method, query[:, :, i : i + 1] + waits, *rest))
        return torch.cat(parts, dim=2)

    return one_by_one


@pytest.mark.parametrize(
    ("claim", "name", "wrong"),
    [
        ("L1.4", MASK, lambda right: lambda n, m, *device: right(n, m, *device).tril(0)),
        ("L1.9", MASK, lambda right: lambda n, m, *device: right(n, m, *device).tril(0)),
        ("L1.7", HEADS, lambda right: lambda *given: right(*given[:-1], dataclasses.replace(given[-1], valid=None))),
        ("L0.10", f"{NORM}._deviation", lambda right: lambda self, variance: (variance + self.eps).sqrt()),
        ("L0.10", f"{NORM}.forward", lambda right: lambda self, x, valid=None: right(self, x, None)),
        (
            "L0.1",
            "clearhead.data.batches.make_batch",
            lambda right: (
                lambda *given, **ids: dataclasses.replace(right(*given, **ids), inputs=right(*given, **ids).labels)
            ),
        ),
        ("L0.2", "clearhead.attention.choice.choose", lambda right: lambda scores, *rest: right(scores, None)),
        ("L1.10", HEADS, sequential),
        ("L0.12", "clearhead.blocks.feedforward.ACTIVATIONS", lambda right: right | {"relu": torch.tanh}),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_a_broken_product_is_not_reproduced(claim: str, name: str, wrong: Breaker) -> None:
    """The mutation: everything runs while the product is broken, and at least one measure of the claim disagrees."""
    with broken(name, wrong):
        outcome = demonstrate(claim)
    assert not outcome.reproduced
    assert outcome.error == ""
    assert outcome.evidence is not None
    assert any(not measure.agrees for measure in outcome.evidence.measures)
