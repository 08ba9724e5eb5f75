"""From an image to tokens: patches of pixels through one linear map (ViT).

Shapes: b batch, p numbers in a patch (size · size · channels), n tokens, d features.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.attention import to_tiles
from clearhead.errors import DataError


class Patches(nn.Module):
    """Cuts an image into patches of size × size pixels; each becomes a token, row by row.

    The linear map reads a patch row by row, with the channels of a pixel next to each other: it is a convolution whose
    stride is its kernel size, at height·width·channels·d multiply-accumulates.

    Args:
        image: height and width of the images, multiples of ``size``.
        channels: numbers per pixel.
        size: height and width of a patch.
        width: features of a token, d.
        class_token: whether a learned token comes first. Default: False.
    """

    def __init__(
        self, *, image: tuple[int, int], channels: int, size: int, width: int, class_token: bool = False
    ) -> None:
        super().__init__()
        self.image, self.channels, self.size, self.embedding_dim = image, channels, size, width
        self.grid = image[0] // size, image[1] // size
        self.map = nn.Linear(size * size * channels, width)
        self.class_token = nn.Embedding(1, width) if class_token else None

    @property
    def length(self) -> int:
        """The number of tokens of an image."""
        return self.grid[0] * self.grid[1] + (self.class_token is not None)

    def extra_repr(self) -> str:
        return f"{self.grid[0]} × {self.grid[1]} of {self.size} × {self.size} pixels"

    def forward(self, pixels: Float[Tensor, "b height width channels"]) -> Float[Tensor, "b n d"]:
        """Return a vector for every patch, after the class token if there is one."""
        expected = (*self.image, self.channels)
        if pixels.shape[1:] != expected:
            shown = " × ".join(map(str, pixels.shape[1:]))
            raise DataError(
                f"the image has shape {shown}, but [model.patches] asks for {' × '.join(map(str, expected))}"
            )
        patches = to_tiles(pixels.flatten(1, 2), self.image, (self.size, self.size))  # (b·n, size², channels)
        tokens: Tensor = self.map(patches.reshape(pixels.shape[0], -1, self.map.in_features))  # (b, n, p) → (b, n, d)
        if self.class_token is None:
            return tokens
        return torch.cat((self.class_token.weight.expand(pixels.shape[0], 1, -1), tokens), dim=1)
