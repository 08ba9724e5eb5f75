"""The largest values block by block, against torch over whole rows."""

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
        found, places = best_places(values, count)
        expected = values.topk(min(count, size)).values
        assert torch.equal(found, expected)
        assert torch.equal(values.gather(1, places), expected)
        finite = [row for row in range(7) if row != 1]
        assert all(len(set(places[row].tolist())) == places.shape[1] for row in finite)
        assert int(places[expected > -torch.inf].max()) < size
