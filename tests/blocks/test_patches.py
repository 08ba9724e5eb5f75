"""Patches of an image as tokens, against a strided convolution."""

import pytest
import torch
import torch.nn.functional as F

from clearhead.blocks import Patches
from clearhead.errors import DataError


def test_patches_are_a_strided_convolution() -> None:
    """Reference: conv2d with stride = size, its kernel laid out as our map reads a patch; another order is rejected."""
    module = Patches(image=(6, 9), channels=2, size=3, width=5)
    pixels = torch.randn(4, 6, 9, 2)
    kernel = module.map.weight.view(5, 3, 3, 2).permute(0, 3, 1, 2)  # (d, channels, rows, columns)
    expected = F.conv2d(pixels.movedim(-1, 1), kernel, module.map.bias, stride=3).flatten(2).transpose(1, 2)
    tokens = module(pixels)
    assert tokens.shape == (4, 2 * 3, 5)
    torch.testing.assert_close(tokens, expected, atol=1e-5, rtol=1e-5)
    wrong = F.conv2d(pixels.movedim(-1, 1), module.map.weight.view(5, 2, 3, 3), module.map.bias, stride=3)
    assert not torch.allclose(wrong.flatten(2).transpose(1, 2), tokens, atol=1e-3)


def test_a_class_token_comes_first_and_is_the_same_for_all() -> None:
    module = Patches(image=(4, 4), channels=1, size=2, width=6, class_token=True)
    tokens = module(torch.randn(3, 4, 4, 1))
    assert tokens.shape == (3, 5, 6)
    assert module.length == 5
    assert torch.equal(tokens[:, 0], module.class_token.weight.expand(3, -1))  # type: ignore[union-attr]


@pytest.mark.parametrize("shape", [(4, 5, 1), (5, 4, 1), (4, 4, 3)])
def test_images_of_another_size_are_named(shape: tuple[int, int, int]) -> None:
    module = Patches(image=(4, 4), channels=1, size=2, width=6)
    shown = " × ".join(map(str, shape))
    with pytest.raises(DataError, match=rf"the image has shape {shown}, but \[model.patches\] asks for 4 × 4 × 1"):
        module(torch.zeros(2, *shape))
