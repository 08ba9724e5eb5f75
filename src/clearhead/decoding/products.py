"""Products of a few rows with the matrices of a decoder, faster than torch's on one thread.

Up to a size, OpenBLAS (NumPy's) multiplies without first copying the matrix into another layout. For a few rows the
copy takes longer than the product, so a wide matrix is read in panels of columns that stay below this size. Every sum
is still a float32 sum over the same features.

Shapes: r rows, i features in, o features out.
"""

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

Floats = NDArray[np.float32]
_SMALL = 1_000_000
"""r·i·o up to which nothing is copied, as timings on one processor with AVX-512 suggest; elsewhere it may differ."""
_FEW = 8
"""Rows up to which panels, and NumPy for narrow matrices, are worth it."""
_WIDE = 2048
"""Columns from which NumPy is faster than torch for more rows, too."""
_NARROW = 64
"""Fewest columns of a panel that is worth its call."""


def product(x: Floats, weight: Floats, out: Floats) -> None:
    """Write the product of (r, i) with (i, o) to ``out``, (r, o)."""
    rows, inner = x.shape
    if rows == 1:
        np.dot(x, weight, out=out)
        return
    outer = weight.shape[1]
    most = _SMALL // (rows * inner)
    if rows > _FEW or most >= outer or most < _NARROW:
        np.matmul(x, weight, out=out)
        return
    panels = -(-outer // most)
    columns = -(-outer // panels)  # of panels of nearly the same width
    whole = outer // columns * columns
    np.matmul(x, _cut(weight[:, :whole], columns), out=_cut(out[:, :whole], columns))
    if whole < outer:
        np.matmul(x, weight[:, whole:], out=out[:, whole:])


def _cut(matrix: Floats, columns: int) -> Floats:
    """A matrix (r, p·c) in p panels of c columns, (p, r, c), where it stands."""
    return matrix.reshape(len(matrix), -1, columns).swapaxes(0, 1)


class Linear:
    """x ↦ xW + b.

    Args:
        weight: W, (i, o).
        bias: b, (o,). Default: none.
    """

    def __init__(self, weight: Float[Tensor, "i o"], bias: Float[Tensor, "o"] | None = None) -> None:
        self.weight, self.bias = weight.contiguous(), bias
        if weight.dtype is torch.float32 and weight.device.type == "cpu":
            self._weight: Floats = self.weight.numpy()
            self._bias: Floats | None = None if bias is None else bias.numpy()

    def __call__(self, x: Float[Tensor, "r i"]) -> Float[Tensor, "r o"]:
        """By torch, if it has several threads, other numbers, or many rows and few columns, else by NumPy."""
        many = len(x) > _FEW and self.weight.shape[1] < _WIDE
        if many or torch.get_num_threads() > 1 or x.dtype is not torch.float32:
            return torch.mm(x, self.weight) if self.bias is None else torch.addmm(self.bias, x, self.weight)
        return torch.from_numpy(self.rows(x.detach().numpy()))

    def rows(self, x: Floats, out: Floats | None = None) -> Floats:
        """By NumPy, (r, i) → (r, o)."""
        y: Floats = np.empty((len(x), self.weight.shape[1]), np.float32) if out is None else out
        product(x, self._weight, y)
        if self._bias is not None:
            y += self._bias
        return y


def linear(*maps: nn.Module, scales: tuple[float, ...] = (1.0, 1.0)) -> Linear:
    """One linear map, or several side by side, each multiplied by its scale."""
    weights, biases = [], []
    for part, scale in zip(maps, scales, strict=False):
        assert isinstance(part, nn.Linear)
        weights.append(part.weight.detach() * scale)
        biases.append((part.weight.new_zeros(part.out_features) if part.bias is None else part.bias.detach()) * scale)
    return Linear(torch.cat(weights).T, torch.cat(biases))
