"""A vector for each text, from the encoder's output for its tokens.

Shapes: b lines, n tokens, d features.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clearhead.models import Model, device_of, evaluating
from clearhead.predictor.forced import batches, padded
from clearhead.recipe import DecodingSpec

Read = Callable[[Int[Tensor, "b n"], Bool[Tensor, "b n"] | None], Float[Tensor, "b n d"]]
"""The encoder: from token ids, and where they are not padding, to a vector for each token."""


def text_vectors(model: Model, rows: Sequence[list[int]], read: Read, spec: DecodingSpec) -> Float[Tensor, "b d"]:
    """Return one vector for each row, without padding, as ``decoding.pooling`` and ``decoding.normalize`` say."""
    found: list[Tensor] = [torch.empty(0)] * len(rows)
    for batch in batches([len(row) for row in rows], spec.budget):
        ids, valid = padded([rows[index] for index in batch])
        device = device_of(model)
        with evaluating(model, spec.attention):
            states = read(ids.to(device), None if valid is None else valid.to(device)).cpu()
        for index, vectors in zip(batch, states, strict=True):
            found[index] = pooled(vectors[: len(rows[index])], spec)
    # clone: a tensor made in inference mode cannot be used for training
    return torch.stack(found).clone() if found else torch.empty(0, 0)


def pooled(vectors: Float[Tensor, "n d"], spec: DecodingSpec) -> Float[Tensor, "d"]:
    """One vector for those of the tokens: their mean, the first, or the largest values; of length 1 if asked for."""
    if not len(vectors):  # a text without tokens, to which nothing was added
        return vectors.new_zeros(vectors.shape[1])
    found = vectors[0] if spec.pooling == "cls" else vectors.mean(0) if spec.pooling == "mean" else vectors.amax(0)
    return torch.nn.functional.normalize(found, dim=0) if spec.normalize else found
