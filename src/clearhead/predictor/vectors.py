"""A vector for each text: the mean of what the encoder makes of its tokens.

Shapes: b lines, n tokens, d features.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clearhead.models import Model
from clearhead.predictor.forced import Choosing, batches, device_of, evaluating, padded

Read = Callable[[Int[Tensor, "b n"], Bool[Tensor, "b n"] | None], Float[Tensor, "b n d"]]
"""The encoder: token ids, and where there are some, to a vector for each."""


def mean_vectors(
    model: Model, rows: Sequence[list[int]], read: Read, budget: int, attention: Choosing
) -> Float[Tensor, "b d"]:
    """The mean over the tokens of each row; padding does not count."""
    found: list[Tensor] = [torch.empty(0)] * len(rows)
    for batch in batches([len(row) for row in rows], budget):
        ids, there = padded([rows[index] for index in batch])
        device = device_of(model)
        with evaluating(model, attention):
            states = read(ids.to(device), None if there is None else there.to(device)).cpu()
        for index, vectors in zip(batch, states, strict=True):
            found[index] = vectors[: len(rows[index])].mean(0)
    # a plain tensor: what is made in inference mode cannot be learnt from
    return torch.stack(found).clone() if found else torch.empty(0, 0)
