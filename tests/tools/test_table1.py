"""Table 1 as four models: what the formulas say is what runs, and each of them trains a few steps."""

import pytest
from tools.table1 import ROWS, Row, page, run


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_L4_6_every_row_is_a_model_that_trains(row: Row) -> None:
    """Work, sequential operations and the longest path at n = 12, and two steps of training."""
    got = run(row, steps=2, length=12, held_out=2)
    assert got.macs == got.counted
    assert got.path == got.traced
    assert got.sequential == got.waiting
    assert got.first_loss > 0
    assert 0 <= got.right <= 1
    assert row.name in page([got], 2)
    paths = {"self-attention": 1, "recurrent": 12, "convolutional": 4, "self-attention (restricted)": 3}
    assert got.traced == paths[row.name]
    assert got.waiting == (12 if row.name == "recurrent" else 1)
