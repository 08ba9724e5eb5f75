"""The same attention on every path that the product has: explicit, fused, by distance, in blocks, and with a cache.

A claim about attention is measured on all of them, without padding and with it, against one reference that knows
nothing of paths: it is told which keys each query may attend to.

Shapes: n tokens, d features.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from clearhead.attention import AttentionContext, DisentangledAttention, KeyValues, MultiHeadAttention
from clearhead.attention.paths import choose_path, works_in_blocks
from clearhead.lectures.demonstrations.compare import ROUNDING, gap
from clearhead.lectures.evidence import Measure
from clearhead.positions import BucketBias, RelativePosition, ShawPosition

Reference = Callable[[Bool[Tensor, "n n"]], Float[Tensor, "n d"]]
"""What the result should be, from which keys (columns) each query (row) may attend to."""


@dataclass(frozen=True)
class Way:
    """What an attention gave on one path."""

    path: str
    """``explicit``, ``fused``, ``distance``, ``blocks`` or ``cache``."""
    seen: Bool[Tensor, "n n"]
    """Which keys each query could attend to."""
    out: Float[Tensor, "n d"]


def every_way(module: Any, x: Float[Tensor, "n d"], scheme: RelativePosition | None = None) -> Iterator[Way]:
    """Run self-attention on every path: all tokens, the last two as padding, a causal mask, and with a cache.

    Without a scheme, two that add nothing stand in for one, as they have paths of their own.
    """
    n = len(x)
    everything = torch.ones(n, n, dtype=torch.bool)
    real = torch.arange(n) < n - 2
    masks = ((everything, None, False), (everything & real, real[None], False), (everything.tril(), None, True))
    with torch.no_grad():
        for used in _schemes(module, scheme, x.dtype):
            for seen, valid, causal in masks:
                context = AttentionContext(
                    valid=valid, causal=causal, scheme=used, queries=torch.arange(n), keys=torch.arange(n)
                )
                yield from _each_path(module, x, context, seen)
        yield Way("cache", everything.tril(), _with_a_cache(module, x, scheme))


def _schemes(module: Any, scheme: RelativePosition | None, dtype: torch.dtype) -> tuple[RelativePosition | None, ...]:
    """The scheme; without one, also a bias of 0 and vectors of 0: the paths by distance and in blocks are theirs."""
    if scheme is not None or isinstance(module, DisentangledAttention):
        return (scheme,)
    size = module.query_size
    schemes = BucketBias(heads=module.heads), ShawPosition(head_size=size, value_size=size, relative="keys")
    for added in schemes:
        for parameter in added.to(dtype).parameters():
            parameter.zero_()
    return None, *schemes


def _each_path(module: Any, x: Tensor, context: AttentionContext, seen: Tensor) -> Iterator[Way]:
    before, done = module.path, set()
    for path in ("explicit", "auto", "fused"):
        module.path = path
        if (name := _path_taken(module, len(x), context)) not in done:
            done.add(name)
            yield Way(name, seen, module(x[None], context=context)[0])
    module.path = before


def _path_taken(module: Any, n: int, context: AttentionContext) -> str:
    if isinstance(module, DisentangledAttention):
        return "blocks" if works_in_blocks(module, n, n, n) else "explicit"
    return choose_path(module, n, n, context)


def _with_a_cache(module: Any, x: Tensor, scheme: RelativePosition | None) -> Tensor:
    """Half of the tokens one by one, the others together."""
    cache, parts, half = KeyValues(), [], len(x) // 2
    for first, last in (*((place, place + 1) for place in range(half)), (half, len(x))):
        context = AttentionContext(
            causal=True, scheme=scheme, queries=torch.arange(first, last), keys=torch.arange(last)
        )
        parts.append(module(x[None, first:last], context=context, cache=cache)[0])
    return torch.cat(parts)


def gaps(module: Any, x: Tensor, reference: Reference, scheme: RelativePosition | None = None) -> dict[str, float]:
    """max|Δ| from the reference, for each path."""
    found: dict[str, float] = {}
    for way in every_way(module, x, scheme):
        found[way.path] = max(found.get(way.path, 0.0), gap(way.out, reference(way.seen)))
    return found


def alike_on_every_path(
    what: str,
    module: Any,
    x: Tensor,
    reference: Reference,
    scheme: RelativePosition | None = None,
) -> tuple[Measure, ...]:
    """Measure that a module gives what the reference says, a measure for each path."""
    return tuple(
        Measure(f"{what}, path {path}: max|Δ|", 0.0, far, tolerance=ROUNDING)
        for path, far in gaps(module, x, reference, scheme).items()
    )


def weights_on_every_path(
    query: Float[Tensor, "n d"], keys: Float[Tensor, "n d"], **settings: Any
) -> dict[str, Float[Tensor, "n n"]]:
    """The weights of a single head on every path: with the unit vectors as values, they are what attention gives.

    ``settings`` are those of ``MultiHeadAttention``; there are no projections.
    """
    n = len(query)
    module = MultiHeadAttention(width=query.shape[-1], heads=1, projections=False, output=False, **settings)
    values = torch.eye(n, dtype=query.dtype)[None]
    found: dict[str, Tensor] = {}
    with torch.no_grad():
        for scheme in _schemes(module, None, query.dtype):
            context = AttentionContext(scheme=scheme, queries=torch.arange(n), keys=torch.arange(n))
            for path in ("explicit", "auto", "fused"):
                module.path = path  # type: ignore[assignment]
                name = choose_path(module, n, n, context)
                if name not in found:
                    found[name] = module(query[None], keys[None], values, context=context)[0]
    return found


def spread_of_scores(weights: Float[Tensor, "n m"]) -> float:
    """The variance of the scores that these weights come from: ln α is the score, but for a constant in each row."""
    return float(weights.log().var(-1).mean())
