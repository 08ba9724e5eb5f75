"""The context of an attention call: which keys are masked, and the positions of queries and keys.

Mask and position are two of the four parts of attention; score and choice belong to the module. A stack makes one
context per forward pass and passes it to all its layers.

Shapes: b batch, n queries, m keys, h heads.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clearhead.attention.blockwise import Distances
from clearhead.attention.once import once
from clearhead.positions import (
    DistanceBias,
    RelativePosition,
    Tables,
    Turns,
    is_exporting,
    last_positions,
    neighbouring_distances,
)


def causal_mask(queries: int, keys: int, device: torch.device | None = None) -> Bool[Tensor, "n m"]:
    """True where a query may attend to a key: its own position and all earlier ones (L1.9).

    The queries are the last n of the m positions: with a cache, query i is at position m − n + i (lower-right
    alignment).
    """
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


class Shared:
    """Masks, rotations and tile contexts that all layers of a stack use: each is computed once per forward pass.

    This only saves time. Every entry follows from its key and from the context, so results do not depend on what is
    stored here, or in which order it was asked for.
    """

    def __init__(self) -> None:
        self._masks: list[tuple[tuple[int, int], Bool[Tensor, ...] | None]] = []  # symbolic sizes cannot be dict keys
        self._tiles: dict[tuple[RelativePosition | None, tuple[int, int]], AttentionContext] = {}
        self._turns: list[tuple[RelativePosition, Tensor, torch.dtype, Turns | None]] = []

    def mask(
        self, sizes: tuple[int, int], make: Callable[[], Bool[Tensor, "..."] | None]
    ) -> Bool[Tensor, "..."] | None:
        """The mask for these numbers of queries and keys."""
        for known, mask in self._masks:
            if known == sizes:
                return mask
        self._masks.append((sizes, make()))
        return self._masks[-1][1]

    def turns(self, scheme: RelativePosition, positions: Int[Tensor, "*b n"], dtype: torch.dtype) -> Turns | None:
        """What the scheme rotates queries or keys at these positions by."""
        for rotating, known, precision, turns in self._turns:
            if rotating is scheme and known is positions and precision == dtype:
                return turns
        self._turns.append((scheme, positions, dtype, scheme.turns(positions, dtype)))
        return self._turns[-1][-1]

    def tile(
        self, scheme: RelativePosition | None, size: tuple[int, int], make: Callable[[], "AttentionContext"]
    ) -> "AttentionContext":
        """The context inside tiles of this size, with this position scheme."""
        if (scheme, size) not in self._tiles:
            self._tiles[scheme, size] = make()
        return self._tiles[scheme, size]


@dataclass(frozen=True)
class AttentionContext:
    """Which keys each query may attend to, and the positions of both. Immutable; without arguments, all see all.

    >>> context = AttentionContext(causal=True)
    >>> context.mask(2, 3, torch.device("cpu"))
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """

    valid: Bool[Tensor, "b m"] | None = None
    """True for keys, False for padding (the inverse of torch's ``key_padding_mask``); None without padding."""
    causal: bool = False
    """Whether later keys are masked (L1.9)."""
    scheme: RelativePosition | None = None
    """The relative position scheme of the stack or of the layer, if any."""
    queries: Int[Tensor, "n"] | Int[Tensor, "b n"] | None = None
    """Positions of the queries; required by relative position schemes."""
    keys: Int[Tensor, "m"] | Int[Tensor, "b m"] | None = None
    """Positions of the keys."""
    pairs: Bool[Tensor, "..."] | None = None
    """True where a query may attend to a key, beside ``valid`` and ``causal``; broadcasts to (b, h, n, m)."""
    # a function, as torch.compile does not go through a class that makes itself
    shared: Shared = field(default_factory=lambda: Shared(), repr=False, compare=False)  # noqa: PLW0108
    """Tensors computed from the fields above, once for all layers; leave it at its default."""

    def with_scheme(self, scheme: RelativePosition) -> "AttentionContext":
        """The same context for a layer with its own position scheme; masks do not depend on it and stay shared."""
        return replace(self, scheme=scheme)

    def rotate_queries(self, queries: Float[Tensor, "b h n d"]) -> Float[Tensor, "b h n d"]:
        """Rotate queries by their positions, if the scheme rotates (RoPE)."""
        if self.scheme is None or self.queries is None:
            return queries
        return self._turn(self.scheme, queries, self.queries)

    def rotate_keys(self, keys: Float[Tensor, "b h r d"]) -> Float[Tensor, "b h r d"]:
        """Rotate keys by their positions; with a cache, these are the r last ones of all keys."""
        if self.scheme is None or self.keys is None:
            return keys
        if is_exporting() or keys.shape[2] != self.keys.shape[-1]:  # torch.export would make the comparison a condition
            return self.scheme.rotate(keys, last_positions(self.keys, keys.shape[2]))
        return self._turn(self.scheme, keys, self.keys)

    def _turn(
        self, scheme: RelativePosition, heads: Float[Tensor, "b h n d"], positions: Int[Tensor, "*b n"]
    ) -> Float[Tensor, "b h n d"]:
        turns = self.shared.turns(scheme, positions, heads.dtype)
        return heads if turns is None else scheme.turn(heads, turns)

    def mask(self, queries: int, keys: int, device: torch.device) -> Bool[Tensor, "..."] | None:
        """True where a query may attend to a key, broadcast to (b, h, n, m); None if nothing is masked."""
        return self.shared.mask((queries, keys), lambda: self._make_mask(queries, keys, device))

    def _make_mask(self, queries: int, keys: int, device: torch.device) -> Bool[Tensor, "..."] | None:
        mask = self.pairs
        if self.causal and queries > 1:
            earlier = causal_mask(queries, keys, device)
            mask = earlier if mask is None else mask & earlier
        if self.valid is not None:
            padding = self.valid[:, None, None, :]  # (b, 1, 1, m)
            mask = padding if mask is None else mask & padding
        return mask

    # ---- position terms ----

    @once
    def bias(self) -> Float[Tensor, "... h n m"] | None:
        """The scheme's bias, added to the scaled scores."""
        if self.scheme is None or self.queries is None or self.keys is None:
            return None
        return self.scheme.bias(self.queries, self.keys)

    @once
    def bias_of_distance(self) -> Float[Tensor, "h r"] | None:
        """``bias`` for each distance i − j, from the lowest, if it depends on the distance alone; −∞ for later keys."""
        if not isinstance(self.scheme, DistanceBias) or (positions := self._one_for_all) is None:
            return None
        distances = neighbouring_distances(*positions).flip(0)  # j − i
        bias = self.scheme.of_distance(distances)
        return bias.masked_fill(distances > 0, -torch.inf) if self.causal else bias

    @once
    def in_blocks(self) -> tuple[Tables, Distances, int] | None:
        """The scheme's tables by distance i − j, their distances, and the first query's position, for blocks."""
        if self.scheme is None or (far := self.scheme.alike_beyond) is None or (positions := self._one_for_all) is None:
            return None
        queries, keys = positions
        offset = int(queries[0] - keys[0])
        distances = Distances(max(-far, offset - len(keys) + 1), min(far, offset + len(queries) - 1))
        every = distances.all(keys.device).clamp(distances.lowest, distances.highest)
        return self.scheme.tables(-every), distances, offset

    def key_term(self, query: Float[Tensor, "b h n d"]) -> Float[Tensor, "b h n m"] | None:
        """The scheme's term added to q·k, from the queries and the positions of the keys."""
        if self.scheme is None or self.queries is None or self.keys is None:
            return None
        return self.scheme.key_term(query, self.queries, self.keys)

    def value_term(self, weights: Float[Tensor, "b h n m"]) -> Float[Tensor, "b h n e"] | None:
        """The scheme's term added to the heads' outputs, from the weights and the positions of the values."""
        if self.scheme is None or self.queries is None or self.keys is None:
            return None
        return self.scheme.value_term(weights, self.queries, self.keys)

    @property
    def weighs_positions(self) -> bool:
        """Whether ``value_term`` is not None, so that the weights must be formed."""
        return self.scheme is not None and self.scheme.weighs_positions

    @property
    def adds_terms(self) -> bool:
        """Whether the scheme adds something to scores or outputs; one that only rotates does not."""
        if self.scheme is None or self.queries is None or self.keys is None:
            return False
        mine, none = type(self.scheme), RelativePosition
        return (mine.bias, mine.key_term, mine.value_term) != (none.bias, none.key_term, none.value_term)

    @property
    def learns_positions(self) -> bool:
        """Whether the scheme has parameters that need a gradient."""
        return torch.is_grad_enabled() and self.scheme is not None and any(True for _ in self.scheme.parameters())

    @property
    def _one_for_all(self) -> "tuple[Int[Tensor, 'n'], Int[Tensor, 'm']] | None":
        """The positions of queries and keys, if they are the same for the whole batch."""
        if self.queries is None or self.keys is None or self.queries.dim() > 1:
            return None
        return self.queries, self.keys
