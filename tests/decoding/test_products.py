"""Products in panels, against NumPy's product in float64."""

import numpy as np
import pytest
import torch

from clearhead.decoding.products import Linear, product


@pytest.mark.parametrize("rows", [1, 2, 5, 40])
@pytest.mark.parametrize("outer", [3, 700, 10_007])
def test_a_product_in_panels_is_the_product(rows: int, outer: int) -> None:
    """One panel, several, and a narrower last one; also into a part of a larger array."""
    random = np.random.default_rng(0)
    x = random.normal(size=(rows, 130)).astype(np.float32)
    weight = random.normal(size=(130, outer)).astype(np.float32)
    expected = x.astype(np.float64) @ weight.astype(np.float64)
    out = np.full((rows, outer + 5), 7.0, np.float32)
    product(x, weight, out[:, :outer])
    np.testing.assert_allclose(out[:, :outer], expected, atol=1e-4)
    assert (out[:, outer:] == 7.0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_linear_map_is_torchs(dtype: torch.dtype) -> None:
    """With and without a bias, in every kind of number."""
    torch.manual_seed(0)
    x, weight, bias = torch.randn(4, 6).to(dtype), torch.randn(6, 9).to(dtype), torch.randn(9).to(dtype)
    atol, rtol = (0.05, 0.02) if dtype is torch.bfloat16 else (1e-6, 1e-5)
    torch.testing.assert_close(Linear(weight)(x), x @ weight, atol=atol, rtol=rtol)
    torch.testing.assert_close(Linear(weight, bias)(x), x @ weight + bias, atol=atol, rtol=rtol)
