"""Numbering tokens wherever the padding stands."""

import torch

from clearhead.positions import positions_of

CPU = torch.device("cpu")


def test_lines_that_start_at_the_left_share_their_numbers() -> None:
    valid = torch.tensor([[True, True, True], [True, False, False]])
    assert positions_of(3, valid, CPU).tolist() == [0, 1, 2]
    assert positions_of(3, None, CPU).tolist() == [0, 1, 2]


def test_left_padding_is_not_counted() -> None:
    """Edge case: cumsum − 1; column numbers would be off by the padding."""
    valid = torch.tensor([[False, False, True, True], [True, True, True, True]])
    assert positions_of(4, valid, CPU)[0, 2:].tolist() == [0, 1]
    assert positions_of(4, valid, CPU)[1].tolist() == [0, 1, 2, 3]
