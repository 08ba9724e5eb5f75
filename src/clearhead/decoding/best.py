"""Argmax and top-k over many values, faster than torch's on a CPU.

torch finds the maximum of a row with vector instructions, but its index one value at a time. So for a top-k, rows are
cut into blocks: the maximum of each block is found fast, and only blocks that can contain the best values are searched.

Shapes: r rows, V values of a row, c indices wanted.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

BLOCK = 64
"""Values per block."""
FROM = 1024
"""Fewest values per row for which blocks are faster."""


def best_place(values: Float[Tensor, "r V"]) -> Int[Tensor, "r"]:
    """The index of the largest value of each row, the first of equal ones.

    NumPy, unlike torch, finds the index with vector instructions.
    """
    if values.dtype is not torch.float32 or values.device.type != "cpu":
        return values.argmax(-1)
    return torch.from_numpy(values.numpy().argmax(-1))


def best_places(values: Float[Tensor, "r V"], count: int) -> tuple[Float[Tensor, "r c"], Int[Tensor, "r c"]]:
    """The ``count`` largest values of each row, the largest first, and their indices.

    No value outside the ``count`` blocks with the largest maxima can be among them.
    """
    if values.shape[1] < max(FROM, 2 * count * BLOCK):
        best = values.topk(min(count, values.shape[1]), dim=-1)
        return best.values, best.indices
    inside, places = _inside(values, _block_maxima(values).topk(count, dim=-1).indices)
    best = inside.topk(count, dim=-1)
    return best.values, places.gather(1, best.indices)


def _block_maxima(values: Float[Tensor, "r V"]) -> Float[Tensor, "r m"]:
    """The largest value of each block; the last block may be shorter."""
    whole = values.shape[1] // BLOCK * BLOCK
    maxima: Tensor = values[:, :whole].view(len(values), -1, BLOCK).amax(-1)
    if whole == values.shape[1]:
        return maxima
    return torch.cat((maxima, values[:, whole:].amax(-1, keepdim=True)), dim=1)


def _inside(
    values: Float[Tensor, "r V"], blocks: Int[Tensor, "r m"]
) -> tuple[Float[Tensor, "r n"], Int[Tensor, "r n"]]:
    """The values in these blocks, and their indices; −∞ past the end of a row."""
    size = values.shape[1]
    places = (blocks[:, :, None] * BLOCK + torch.arange(BLOCK)).flatten(1)
    if size % BLOCK == 0:
        return values.gather(1, places), places
    inside = values.gather(1, places.clamp(max=size - 1))
    return inside.masked_fill_(places >= size, -torch.inf), places
