"""Muon: orthogonal steps, in one stack or alone, and agreement with torch's in its own precision."""

import pytest
import torch

from clearhead.training.muon import Muon, orthogonalise


def test_singular_values_come_near_one() -> None:
    """Both wide and tall; the directions are those of the matrix itself (U Vᵀ of its SVD)."""
    for shape in ((4, 6, 10), (4, 10, 6), (3, 8, 8)):
        matrices = torch.randn(shape)
        result = orthogonalise(matrices)
        values = torch.linalg.svdvals(result)
        assert (values > 0.3).all()
        assert (values < 1.5).all()
        u, _, v = torch.linalg.svd(matrices, full_matrices=False)
        assert ((result * (u @ v)).sum((1, 2)) > 0.8 * min(shape[1:])).all()
    assert (torch.linalg.svdvals(torch.randn(20, 20)) > 1.5).any()  # which a plain gradient is not


def test_a_stack_is_its_matrices_one_by_one() -> None:
    matrices = torch.randn(3, 5, 7)
    alone = torch.stack([orthogonalise(matrix[None])[0] for matrix in matrices])
    torch.testing.assert_close(orthogonalise(matrices), alone)


@pytest.mark.parametrize("decay", [0.0, 5.0])
def test_steps_agree_with_torchs(decay: float) -> None:
    """Reference: torch.optim.Muon, which rounds to bfloat16: the same path within that precision."""
    start = [torch.randn(12, 8), torch.randn(8, 8)]
    gradients = [[torch.randn_like(matrix) for matrix in start] for _ in range(3)]

    def run(make: object) -> list[torch.Tensor]:
        matrices = [torch.nn.Parameter(matrix.clone()) for matrix in start]
        optimizer = make(matrices)  # type: ignore[operator]
        for row in gradients:
            for matrix, gradient in zip(matrices, row, strict=True):
                matrix.grad = gradient.clone()
            optimizer.step()
        return [matrix.detach() - first for matrix, first in zip(matrices, start, strict=True)]

    mine = run(lambda p: Muon(p, lr=0.02, momentum=0.95, weight_decay=decay))
    theirs = run(lambda p: torch.optim.Muon(p, lr=0.02, momentum=0.95, weight_decay=decay))
    for one, other in zip(mine, theirs, strict=True):
        assert float((one - other).norm() / other.norm()) < 0.1


def test_the_momentum_is_nesterovs() -> None:
    """Reference: the formula by hand, m ← 0.9m + 0.1g and the step of 0.1g + 0.9m, for gradients that turn."""
    matrix = torch.nn.Parameter(torch.zeros(3, 5))
    gradients = [torch.randn(3, 5) for _ in range(3)]
    optimizer, momentum, expected = Muon([matrix], lr=0.1, momentum=0.9), torch.zeros(3, 5), torch.zeros(3, 5)
    for gradient in gradients:
        matrix.grad = gradient.clone()
        optimizer.step()
        momentum = 0.9 * momentum + 0.1 * gradient
        expected = expected - 0.1 * orthogonalise((0.1 * gradient + 0.9 * momentum)[None])[0]
        torch.testing.assert_close(matrix.detach(), expected, atol=1e-6, rtol=1e-5)
