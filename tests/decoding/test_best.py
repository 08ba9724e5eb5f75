"""The largest values column by column, against torch over whole rows."""

import pytest
import torch

from clearhead.decoding.best import best_place, best_places


@pytest.mark.parametrize("size", [5, 1023, 1024, 1500, 10_000, 10_001])
def test_places_are_torchs(size: int) -> None:
    """Reference: argmax and topk; also with rows of -inf but for the last places, and with equal values."""
    torch.manual_seed(0)
    values = torch.randn(7, size)
    values[1] = -torch.inf
    values[1, -2:] = torch.tensor([1.0, 2.0])
    values[2, size // 2] = values[2, 3] = 9.0  # equal: the first one counts
    values[3, -1] = 9.0
    assert torch.equal(best_place(values), values.argmax(-1))
    for count in (1, 2, 8):
        for row in values:
            expected = row.topk(min(count, size)).values
            found = best_places(row.numpy(), count)
            assert [value for value, _ in found] == expected[expected > -torch.inf].tolist()
            assert [float(row[place]) for _, place in found] == [value for value, _ in found]
            assert len({place for _, place in found}) == len(found)
    if size > 5:  # of equal values the first comes first
        assert [place for _, place in best_places(values[2].numpy(), 2)] == [3, size // 2]
