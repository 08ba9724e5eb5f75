"""The key-value cache: keys and values of earlier tokens, so that a decoding step computes only the new token.

The cache is for decoding only: it is written in place, outside of autograd.

Shapes: b batch, h heads, t tokens so far, d and e features of a key and of a value.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class KeyValues:
    """The cached keys and values of one attention, in a buffer that doubles when it is full: O(1) per token."""

    def __init__(self) -> None:
        self.length = 0
        self.kept: dict[str, Any] = {}
        """Other tensors that an attention keeps between steps; they are the same for all rows of the batch."""
        self._keys: Float[Tensor, "b h c d"] | None = None
        self._values: Float[Tensor, "b h c e"] | None = None

    def append(
        self, keys: Float[Tensor, "b h n d"], values: Float[Tensor, "b h n e"]
    ) -> tuple[Float[Tensor, "b h t d"], Float[Tensor, "b h t e"]]:
        """Append the keys and values of n tokens; return those of all t tokens so far."""
        end = self.length + keys.shape[2]
        self._keys = _with_room(self._keys, self.length, end, keys)
        self._values = _with_room(self._values, self.length, end, values)
        self._keys[:, :, self.length : end] = keys.detach()
        self._values[:, :, self.length : end] = values.detach()
        self.length = end
        return self.view()

    def view(self) -> tuple[Float[Tensor, "b h t d"], Float[Tensor, "b h t e"]]:
        """The keys and values of all tokens so far."""
        if self._keys is None or self._values is None:
            raise ValueError("the cache is empty")
        return self._keys[:, :, : self.length], self._values[:, :, : self.length]

    def select(self, rows: Int[Tensor, "r"]) -> None:
        """Keep these rows of the batch, in this order; rows may be repeated (beam search)."""
        if self._keys is not None and self._values is not None:
            self._keys = _gather(self._keys, self.length, rows)
            self._values = _gather(self._values, self.length, rows)

    @property
    def nbytes(self) -> int:
        """Bytes of the stored keys and values, without spare capacity."""
        return 0 if self._keys is None else sum(part.numel() * part.element_size() for part in self.view())


def remembered(
    cache: KeyValues | None,
    candidates: Callable[[], tuple[Tensor, Tensor]],
    *,
    fixed: bool,
) -> tuple[Float[Tensor, "b h t d"], Float[Tensor, "b h t e"]]:
    """Return the keys and values of all tokens, cached and new.

    Args:
        cache: the cache, or None, in which case nothing is stored.
        candidates: computes the keys and values of the new tokens; they are appended to the cache.
        fixed: True for cross-attention, whose memory never changes: ``candidates`` is called in the first step only.
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


class RecentTokens:
    """The last inputs of a convolution, (b, r, d): as many as it reaches back; its size does not grow."""

    def __init__(self) -> None:
        self.length = 0
        self._tokens: Float[Tensor, "b r d"] | None = None

    def joined(self, tokens: Float[Tensor, "b n d"], reach: int) -> Float[Tensor, "b t d"]:
        """The last ``reach`` inputs, then these; before the first one, inputs are 0."""
        if self._tokens is None:
            self._tokens = tokens.new_zeros(tokens.shape[0], reach, tokens.shape[-1])
        return torch.cat((self._tokens, tokens), dim=1)

    def keep(self, line: Float[Tensor, "b t d"], reach: int, new: int) -> None:
        """Keep the last ``reach`` inputs of a line to which ``new`` ones were added."""
        self._tokens = line[:, line.shape[1] - reach :].detach().clone()
        self.length += new

    def select(self, rows: Int[Tensor, "r"]) -> None:
        """Keep these rows of the batch, in this order; rows may be repeated (beam search)."""
        self._tokens = None if self._tokens is None else self._tokens[rows]

    @property
    def nbytes(self) -> int:
        """Bytes of the stored inputs."""
        return 0 if self._tokens is None else self._tokens.numel() * self._tokens.element_size()


@dataclass
class LayerCache:
    """The cache of one decoder layer: self-attention (``own``), which grows, and cross-attention, computed once.

    In a convolutional layer, ``own`` holds the last inputs.
    """

    own: KeyValues | RecentTokens = field(default_factory=KeyValues)
    cross: KeyValues = field(default_factory=KeyValues)


class Cache:
    """The key-value cache of a whole decoder.

    Args:
        layers: the number of decoder layers.
        recent: whether the layers convolve, so that each keeps its last inputs. Default: False.
    """

    def __init__(self, layers: int, *, recent: bool = False) -> None:
        self.layers = [LayerCache(own=RecentTokens() if recent else KeyValues()) for _ in range(layers)]
        self.valid: Bool[Tensor, "b t"] | None = None
        """True for tokens, False for padding, among all positions so far; None without padding."""
        self.length = 0

    def with_new(
        self, batch: int, new: int, valid: Bool[Tensor, "b n"] | None, device: torch.device
    ) -> Bool[Tensor, "b t"] | None:
        """``valid`` of all positions once ``new`` ones are appended; None without padding. Changes nothing."""
        if valid is None and self.valid is None:
            return None
        old, more = self.valid, valid
        if old is None:
            old = torch.ones(batch, self.length, dtype=torch.bool, device=device)
        if more is None:
            more = torch.ones(batch, new, dtype=torch.bool, device=device)
        return torch.cat((old, more), dim=1)

    def select(self, rows: Int[Tensor, "r"]) -> None:
        """Keep these rows of the batch, in this order: beams are reordered, finished lines dropped."""
        if self.valid is not None:
            self.valid = self.valid[rows]
        for layer in self.layers:
            layer.own.select(rows)
            layer.cross.select(rows)

    @property
    def nbytes(self) -> int:
        """Bytes of all keys and values: L·b·h·(d̃_q + d̃_v)·t floats, and the same for the source."""
        return sum(layer.own.nbytes + layer.cross.nbytes for layer in self.layers)
