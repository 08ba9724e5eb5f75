"""Positions on a grid, against transformers' table, loops, and their defining property: only distances matter."""

import itertools
import math

import pytest
import torch

from clearhead.positions import GridBias, GridSinusoids, grid_offset, sinusoids
from clearhead.positions.grid import rectangle

ROWS, COLUMNS = 3, 5
CELLS = torch.arange(ROWS * COLUMNS)


@pytest.mark.parametrize("class_token", [False, True])
def test_sinusoids_of_row_and_column_are_transformers(class_token: bool) -> None:
    """Reference: ViTMAE's table, [row ‖ column], a class token without a place; columns first is rejected."""
    from transformers.models.vit_mae.modeling_vit_mae import build_2d_sinusoidal_position_embedding

    module = GridSinusoids(width=24, grid=(ROWS, COLUMNS), class_token=class_token, layout="halves")
    expected = build_2d_sinusoidal_position_embedding(ROWS, COLUMNS, 24, cls_token=class_token)
    table = module(torch.arange(len(expected)), len(expected))
    torch.testing.assert_close(table, expected, atol=1e-6, rtol=1e-6)
    wrong = torch.cat((table[:, 12:], table[:, :12]), dim=1)
    assert not torch.allclose(wrong, expected, atol=1e-3)


def test_sinusoids_of_row_and_column_by_a_loop() -> None:
    """Features 2i and 2i+1 of a half are sin and cos of its coordinate times base^(−2i/(d/2))."""
    table = GridSinusoids(width=8, grid=(ROWS, COLUMNS))(CELLS, len(CELLS))
    for x, y in itertools.product(range(ROWS), range(COLUMNS)):
        expected = [
            wave(coordinate * 10_000 ** (-2 * i / 4))
            for coordinate in (x, y)
            for i in range(2)
            for wave in (math.sin, math.cos)
        ]
        torch.testing.assert_close(table[x * COLUMNS + y], torch.tensor(expected), atol=1e-6, rtol=1e-6)
    assert not torch.allclose(table, sinusoids(len(CELLS), 8), atol=1e-3)  # not the sequence's


def test_the_number_of_a_distance_exactly() -> None:
    """(Δx, Δy) from query to key, clipped, numbered row by row; from key to query is another map."""
    farthest = 2
    expected = torch.zeros(ROWS * COLUMNS, ROWS * COLUMNS, dtype=torch.long)
    for (x1, y1), (x2, y2) in itertools.product(itertools.product(range(ROWS), range(COLUMNS)), repeat=2):
        dx, dy = min(max(x2 - x1, -farthest), farthest), min(max(y2 - y1, -farthest), farthest)
        expected[x1 * COLUMNS + y1, x2 * COLUMNS + y2] = (dx + farthest) * 5 + dy + farthest
    mine = grid_offset(CELLS, CELLS, columns=COLUMNS, farthest=farthest)
    assert torch.equal(mine, expected)
    assert not torch.equal(mine.T, expected)
    assert set(mine.flatten().tolist()) == set(range(25))


def test_the_bias_reads_the_table_per_head() -> None:
    module = GridBias(heads=4, grid=(ROWS, COLUMNS), farthest=3)
    bias = module.bias(CELLS[:2], CELLS)
    assert bias.shape == (4, 2, 15)
    # from cell (0, 1) to cell (2, 3): two rows down, two columns to the right
    assert torch.equal(bias[:, 1, 13], module.table.weight[(2 + 3) * 7 + 2 + 3])
    rows = torch.stack((CELLS, CELLS + COLUMNS))
    per_line = module.bias(rows, rows)
    assert per_line.shape == (2, 4, 15, 15)


@pytest.mark.parametrize(
    ("cells", "shape"),
    [
        ([x * 6 + y for x in range(4) for y in range(6)], (4, 6)),
        ([x * 6 + y for x in range(1, 3) for y in range(2, 5)], (2, 3)),
        ([2, 3, 4, 5], (1, 4)),
        ([3, 9, 15], (3, 1)),
        ([7], (1, 1)),
        ([4, 5, 6, 7], None),  # around the edge
        ([0, 1, 6, 8], None),
        ([0, 1, 2, 6, 7], None),
        ([6, 7, 0, 1], None),
    ],
)
def test_a_rectangle_is_recognised_and_its_bias_is_the_same(cells: list[int], shape: tuple[int, int] | None) -> None:
    """The short way, by distances, gives exactly what the table holds for every pair; so do its gradients."""
    module, where = GridBias(heads=3, grid=(4, 6), farthest=2), torch.tensor(cells)
    assert rectangle(where, 6) == shape
    table = module.table.weight.detach().requires_grad_()
    expected = table[grid_offset(where, where, columns=6, farthest=2)].movedim(-1, 0)
    bias = module.bias(where, where)
    assert torch.equal(bias, expected)
    slope = torch.randn_like(bias)
    bias.backward(slope)
    expected.backward(slope)
    torch.testing.assert_close(module.table.weight.grad, table.grad)


def test_L2_11_a_shifted_picture_has_the_same_biases() -> None:
    """L2.11: moving query and key together, by rows or columns, changes no bias; moving one does, as do sinusoids."""
    bias = GridBias(heads=2, grid=(8, 8), farthest=3)
    absolute = GridSinusoids(width=8, grid=(8, 8))
    patch = torch.tensor([x * 8 + y for x in range(3) for y in range(4)])
    for shift in (8, 1, 3 * 8 + 2):
        assert torch.equal(bias.bias(patch + shift, patch + shift), bias.bias(patch, patch))
        assert not torch.equal(bias.bias(patch + shift, patch), bias.bias(patch, patch))
        assert not torch.allclose(absolute(patch + shift, 64), absolute(patch, 64), atol=1e-3)
