"""Attention that works on one key after another: the same result, and what every claim about parallel time must see."""

from typing import Any

from torch import Tensor

from clearhead.attention import AttentionContext, weigh

EXPLICIT = "clearhead.attention.paths._explicit"


def key_by_key(right: Any) -> Any:
    """What breaks ``EXPLICIT``: the values are added up one after another, so that each sum waits for the last."""
    del right

    def explicit(method: Any, query: Tensor, keys: Tensor, values: Tensor, context: AttentionContext) -> Tensor:
        mask = context.mask(query.shape[2], keys.shape[2], query.device)
        weights = weigh(query, keys, scale=method.scale, mask=mask)
        out = weights[..., :1] * values[..., :1, :]
        for key in range(1, keys.shape[2]):
            out = out + weights[..., key : key + 1] * values[..., key : key + 1, :]
        return out

    return explicit
