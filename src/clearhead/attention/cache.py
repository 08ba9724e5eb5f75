"""Keys and values of tokens already seen, so that a decoding step computes only what is new.

A cache is for decoding: it is written in place, outside of autograd.

Shapes: b batch, h heads, t tokens so far, d and e features of a key and of a value.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class KeyValues:
    """The keys and values of one attention: a buffer that doubles when it is full, so that a token costs O(1)."""

    def __init__(self) -> None:
        self.length = 0
        self.kept: dict[str, Any] = {}
        """What else an attention keeps between steps, the same for every line."""
        self._keys: Float[Tensor, "b h c d"] | None = None
        self._values: Float[Tensor, "b h c e"] | None = None

    def append(
        self, keys: Float[Tensor, "b h n d"], values: Float[Tensor, "b h n e"]
    ) -> tuple[Float[Tensor, "b h t d"], Float[Tensor, "b h t e"]]:
        """Add the keys and values of n more tokens; returns all of them, old and new."""
        end = self.length + keys.shape[2]
        self._keys = _with_room(self._keys, self.length, end, keys)
        self._values = _with_room(self._values, self.length, end, values)
        self._keys[:, :, self.length : end] = keys.detach()
        self._values[:, :, self.length : end] = values.detach()
        self.length = end
        return self.view()

    def view(self) -> tuple[Float[Tensor, "b h t d"], Float[Tensor, "b h t e"]]:
        """Everything stored so far."""
        if self._keys is None or self._values is None:
            raise ValueError("the cache is empty")
        return self._keys[:, :, : self.length], self._values[:, :, : self.length]

    def select(self, rows: Int[Tensor, "r"]) -> None:
        """Keep these rows of the batch, in this order; a row may be kept several times (beams)."""
        if self._keys is not None and self._values is not None:
            self._keys = _gather(self._keys, self.length, rows)
            self._values = _gather(self._values, self.length, rows)

    @property
    def nbytes(self) -> int:
        """Bytes of the keys and values stored, without the room kept for more."""
        return 0 if self._keys is None else sum(part.numel() * part.element_size() for part in self.view())


def remembered(
    cache: KeyValues | None,
    candidates: Callable[[], tuple[Tensor, Tensor]],
    *,
    fixed: bool,
) -> tuple[Float[Tensor, "b h t d"], Float[Tensor, "b h t e"]]:
    """Keys and values of all tokens: those that the cache has, and the ``candidates``, which are added to it.

    A ``fixed`` memory is the same in every step: its candidates are made only once. Without a cache nothing is kept.
    """
    if cache is None:
        return candidates()
    return cache.view() if fixed and cache.length else cache.append(*candidates())


def _with_room(
    buffer: Float[Tensor, "b h c d"] | None, used: int, needed: int, like: Float[Tensor, "b h n d"]
) -> Float[Tensor, "b h c2 d"]:
    if buffer is not None and buffer.shape[2] >= needed:
        return buffer
    batch, heads, _, size = like.shape
    capacity = needed if buffer is None else max(needed, 2 * buffer.shape[2], 16)
    larger = like.new_empty(batch, heads, capacity, size)
    if buffer is not None:
        larger[:, :, :used] = buffer[:, :, :used]
    return larger


def _gather(buffer: Float[Tensor, "b h c d"], used: int, rows: Int[Tensor, "r"]) -> Float[Tensor, "r h c d"]:
    gathered = buffer.new_empty(len(rows), *buffer.shape[1:])
    gathered[:, :, :used] = buffer[rows, :, :used]
    return gathered


@dataclass
class LayerCache:
    """What one decoder layer keeps: its own tokens, which grow, and the encoder's, which are computed once."""

    own: KeyValues = field(default_factory=KeyValues)
    cross: KeyValues = field(default_factory=KeyValues)


class Cache:
    """What a whole decoder keeps between steps."""

    def __init__(self, layers: int) -> None:
        self.layers = [LayerCache() for _ in range(layers)]
        self.present: Bool[Tensor, "b t"] | None = None
        """False where a token so far is padding; None while there is none."""
        self.length = 0

    def with_new(
        self, batch: int, new: int, present: Bool[Tensor, "b n"] | None, device: torch.device
    ) -> Bool[Tensor, "b t"] | None:
        """Which tokens are there once ``new`` ones are added; None if all are. Changes nothing yet."""
        if present is None and self.present is None:
            return None
        old, more = self.present, present
        if old is None:
            old = torch.ones(batch, self.length, dtype=torch.bool, device=device)
        if more is None:
            more = torch.ones(batch, new, dtype=torch.bool, device=device)
        return torch.cat((old, more), dim=1)

    def select(self, rows: Int[Tensor, "r"]) -> None:
        """Keep these rows of the batch, in this order: reordered beams, or a batch without its finished lines."""
        if self.present is not None:
            self.present = self.present[rows]
        for layer in self.layers:
            layer.own.select(rows)
            layer.cross.select(rows)

    @property
    def nbytes(self) -> int:
        """Bytes of all keys and values: L·b·h·(d̃_q + d̃_v)·t floats, and the same for the source."""
        return sum(layer.own.nbytes + layer.cross.nbytes for layer in self.layers)
