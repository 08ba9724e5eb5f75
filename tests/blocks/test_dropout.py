"""Dropout: how often, how much, and that a seed fixes it."""

import pytest
import torch

from clearhead.blocks import Dropout


@pytest.mark.parametrize("p", [0.1, 0.25, 0.9])
def test_each_entry_is_dropped_as_often_as_said_and_the_mean_stays(p: float) -> None:
    """Reference: the binomial law, at five deviations; kept entries are 1/(1 − p), and so are their gradients."""
    torch.manual_seed(0)
    x = torch.ones(400, 1003, requires_grad=True)  # not a multiple of the four entries that share a draw
    y = Dropout(p)(x)
    y.sum().backward()
    deviation = (p * (1 - p) / x.numel()) ** 0.5
    assert abs(float((y == 0).float().mean()) - p) < 5 * deviation
    assert abs(float((y == 0).float().mean()) - (p + 0.01)) > 5 * deviation  # the test can tell a wrong p
    torch.testing.assert_close(y[y != 0], torch.full_like(y[y != 0], 1 / (1 - p)), rtol=2e-4, atol=0.0)
    torch.testing.assert_close(x.grad, y.detach(), rtol=0.0, atol=0.0)


def test_entries_that_share_a_draw_are_independent() -> None:
    """The four entries of one 64-bit draw: no pair of them is dropped together more often than p²."""
    torch.manual_seed(0)
    p, rows = 0.3, 200_000
    dropped = (Dropout(p)(torch.ones(rows, 4)) == 0).double()
    together = dropped.T @ dropped / rows
    deviation = (p * p * (1 - p * p) / rows) ** 0.5
    for left in range(4):
        for right in range(left):
            assert abs(float(together[left, right]) - p * p) < 5 * deviation


def test_a_seed_fixes_it_and_evaluation_has_none() -> None:
    """Two runs with one seed are identical; without training, and at p = 0, x itself comes back."""
    drop, x = Dropout(0.5), torch.randn(3, 5)
    torch.manual_seed(1)
    first = drop(x)
    assert not torch.equal(first, drop(x))
    torch.manual_seed(1)
    assert torch.equal(first, drop(x))
    assert drop.eval()(x) is x
    assert Dropout(0.0)(x) is x
    assert not Dropout(1.0)(x).any()
