"""A vector for each text: the mean of the encoder's output over its tokens.

Shapes: b lines, n tokens, d features.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clearhead.models import AttentionChoice, Model, device_of, evaluating
from clearhead.predictor.forced import batches, padded

Read = Callable[[Int[Tensor, "b n"], Bool[Tensor, "b n"] | None], Float[Tensor, "b n d"]]
"""The encoder: from token ids, and where they are not padding, to a vector for each token."""


def mean_vectors(
    model: Model, rows: Sequence[list[int]], read: Read, budget: int, attention: AttentionChoice
) -> Float[Tensor, "b d"]:
    """Return the mean over the tokens of each row, without padding."""
    found: list[Tensor] = [torch.empty(0)] * len(rows)
    for batch in batches([len(row) for row in rows], budget):
        ids, valid = padded([rows[index] for index in batch])
        device = device_of(model)
        with evaluating(model, attention):
            states = read(ids.to(device), None if valid is None else valid.to(device)).cpu()
        for index, vectors in zip(batch, states, strict=True):
            found[index] = vectors[: len(rows[index])].mean(0)
    # clone: a tensor made in inference mode cannot be used for training
    return torch.stack(found).clone() if found else torch.empty(0, 0)
