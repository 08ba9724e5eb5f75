"""What one call of attention knows besides its tokens: the mask and the position term.

They are the third and the fourth of the things that make an attention. A stack makes one context per call and hands it
to all its layers.

Shapes: b batch, n queries, m keys, h heads.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clearhead.attention.blockwise import Distances
from clearhead.positions import DistanceBias, RelativePosition, Tables, neighbouring_distances


def causal_mask(queries: int, keys: int, device: torch.device | None = None) -> Bool[Tensor, "n m"]:
    """True where a query may look: itself and what came before (L1.9).

    The queries are the last ones of the keys: with a cache, query i stands at m − n + i (lower-right alignment).
    """
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


class Masks:
    """Masks that were made so far, hardly ever more than one, so that the layers of a stack share them.

    A list, as symbolic sizes cannot be keys of a dict.
    """

    def __init__(self) -> None:
        self._made: list[tuple[tuple[int, int], Bool[Tensor, ...] | None]] = []

    def of(self, sizes: tuple[int, int], make: Callable[[], Bool[Tensor, "..."] | None]) -> Bool[Tensor, "..."] | None:
        """The mask for so many queries and keys, made only once."""
        for known, mask in self._made:
            if known == sizes:
                return mask
        self._made.append((sizes, make()))
        return self._made[-1][1]


@dataclass(frozen=True)
class AttentionContext:
    """Which keys each query may look at, and where both stand.

    The first five fields say it; the others keep what follows from them, so that it is computed once for all layers.
    """

    present: Bool[Tensor, "b m"] | None = None
    """False for keys that are padding; None if every key is there."""
    causal: bool = False
    """No query sees a later key."""
    scheme: RelativePosition | None = None
    """The relative position scheme of the stack, or of the layer, if it has one."""
    queries: Int[Tensor, "n"] | Int[Tensor, "b n"] | None = None
    """Positions of the queries; given whenever something relative looks at them."""
    keys: Int[Tensor, "m"] | Int[Tensor, "b m"] | None = None
    """Positions of the keys."""
    masks: Masks = field(default_factory=Masks, repr=False, compare=False)
    """Masks of this context by size, shared with the contexts that ``with_scheme`` makes of it."""
    tiles: "dict[tuple[int, int], AttentionContext]" = field(default_factory=dict, repr=False, compare=False)
    """Contexts inside the tiles of a grid, by their rows and columns: see ``clearhead.attention.grid``."""

    def with_scheme(self, scheme: RelativePosition) -> "AttentionContext":
        """The same for a layer with a scheme of its own; what may be seen stays the same, so masks are shared."""
        return replace(self, scheme=scheme, tiles={})

    def rotate_queries(self, queries: Float[Tensor, "b h n d"]) -> Float[Tensor, "b h n d"]:
        """Queries turned to where they stand, if the scheme turns them."""
        if self.scheme is None or self.queries is None:
            return queries
        return self.scheme.rotate(queries, self.queries)

    def rotate_keys(self, keys: Float[Tensor, "b h r d"]) -> Float[Tensor, "b h r d"]:
        """The same for keys; with a cache only new ones come, which are the last ones of all keys."""
        if self.scheme is None or self.keys is None:
            return keys
        return self.scheme.rotate(keys, self.keys[..., -keys.shape[2] :])

    def mask(self, queries: int, keys: int, device: torch.device) -> Bool[Tensor, "..."] | None:
        """True where a query may look, to be broadcast over (b, h, n, m); None if it may look everywhere."""
        return self.masks.of((queries, keys), lambda: self._make_mask(queries, keys, device))

    def _make_mask(self, queries: int, keys: int, device: torch.device) -> Bool[Tensor, "..."] | None:
        mask = None
        if self.causal and queries > 1:
            mask = causal_mask(queries, keys, device)
        if self.present is not None:
            padding = self.present[:, None, None, :]  # (b, 1, 1, m)
            mask = padding if mask is None else mask & padding
        return mask

    # ---- what the position scheme adds ----

    @cached_property
    def bias(self) -> Float[Tensor, "... h n m"] | None:
        """What the scheme adds to the scores."""
        if self.scheme is None or self.queries is None or self.keys is None:
            return None
        return self.scheme.bias(self.queries, self.keys)

    @cached_property
    def bias_of_distance(self) -> Float[Tensor, "h r"] | None:
        """``bias`` by distance i − j, from the lowest, if it depends on that alone; −∞ for the future (L1.9)."""
        if not isinstance(self.scheme, DistanceBias) or (positions := self._one_for_all) is None:
            return None
        distances = neighbouring_distances(*positions).flip(0)  # j − i
        bias = self.scheme.of_distance(distances)
        return bias.masked_fill(distances > 0, -torch.inf) if self.causal else bias

    @cached_property
    def in_blocks(self) -> tuple[Tables, Distances, int] | None:
        """All that the scheme does, for blocks of queries: by distance i − j, and where the first query stands."""
        if self.scheme is None or (far := self.scheme.alike_beyond) is None or (positions := self._one_for_all) is None:
            return None
        queries, keys = positions
        offset = int(queries[0] - keys[0])
        distances = Distances(max(-far, offset - len(keys) + 1), min(far, offset + len(queries) - 1))
        every = distances.all(keys.device).clamp(distances.lowest, distances.highest)
        return self.scheme.tables(-every), distances, offset

    def key_term(self, query: Float[Tensor, "b h n d"]) -> Float[Tensor, "b h n m"] | None:
        """What the scheme adds to q·k, from each query and where the keys stand."""
        if self.scheme is None or self.queries is None or self.keys is None:
            return None
        return self.scheme.key_term(query, self.queries, self.keys)

    def value_term(self, weights: Float[Tensor, "b h n m"]) -> Float[Tensor, "b h n e"] | None:
        """What the scheme adds to the heads' outputs, from the weights and where the values stand."""
        if self.scheme is None or self.queries is None or self.keys is None:
            return None
        return self.scheme.value_term(weights, self.queries, self.keys)

    @property
    def weighs_positions(self) -> bool:
        """Whether ``value_term`` does something, for which the weights must be formed."""
        return self.scheme is not None and self.scheme.weighs_positions

    @property
    def learns_positions(self) -> bool:
        """Whether the scheme has something to learn from here."""
        return torch.is_grad_enabled() and self.scheme is not None and any(True for _ in self.scheme.parameters())

    @property
    def _one_for_all(self) -> "tuple[Int[Tensor, 'n'], Int[Tensor, 'm']] | None":
        """Positions of queries and keys, if all sequences of the batch have the same."""
        if self.queries is None or self.keys is None or self.queries.dim() > 1:
            return None
        return self.queries, self.keys
